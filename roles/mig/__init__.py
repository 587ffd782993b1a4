"""MIG: how the GPUs are cut, now and after each boot."""
