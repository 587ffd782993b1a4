"""Values of the kernel: a row for each in `knobs.py`."""
