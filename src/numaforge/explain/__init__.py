"""Where a pod or a gang would go: what scheduler and kubelet say of each node, and what would help."""
