"""PCIe access control, so that NICs reach the memory of GPUs."""
