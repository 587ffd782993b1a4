"""The cluster's view: what schedulers read of nodes, and where a pod would go."""
