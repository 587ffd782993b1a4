"""Which CPUs answer the devices: interrupts and received packets."""
