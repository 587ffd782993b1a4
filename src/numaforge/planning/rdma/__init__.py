"""RDMA: pools for pods, what the host needs, GPUDirect, and what libraries are told."""
