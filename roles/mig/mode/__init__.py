"""The MIG mode of GPUs that change it only at a boot."""
