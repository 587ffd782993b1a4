"""Reserved memory, split over the NUMA nodes."""
