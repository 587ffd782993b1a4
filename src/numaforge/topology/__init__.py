"""What is there: a snapshot read as packages, NUMA nodes, cores, memory and devices."""
