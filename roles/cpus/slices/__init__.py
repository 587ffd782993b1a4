"""Which CPUs the system's own daemons use."""
