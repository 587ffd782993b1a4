"""Where a pod or a gang would go: each node's verdict by scheduler and kubelet, and what would help."""
