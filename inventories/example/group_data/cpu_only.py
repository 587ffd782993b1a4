"""Nodes without GPUs."""

numaforge_profile = "cpu-only"
