"""AMD partitions: the compute and memory modes of Instinct GPUs, now and after every boot."""
