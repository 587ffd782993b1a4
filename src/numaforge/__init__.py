"""numaforge turns a GPU server into a topology-aligned Kubernetes worker."""

__version__ = "1.0.0"
