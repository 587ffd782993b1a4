"""What is wrong with the GPUs of a machine, their driver and their fabric."""
