"""Capture a machine and load snapshots: the only input of the rest of numaforge."""
