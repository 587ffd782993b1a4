"""Decide: a pure function from topology, profile and kubelet version to a plan with reasons."""
