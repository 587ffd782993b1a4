"""Faults of a host's userland, and other tuning tools."""
