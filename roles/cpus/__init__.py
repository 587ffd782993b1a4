"""Reserved CPUs: whole cores that workloads never get, on every NUMA node that they use."""
