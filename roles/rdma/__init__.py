"""RDMA: settings of the host, pools for pods, settings of libraries."""
