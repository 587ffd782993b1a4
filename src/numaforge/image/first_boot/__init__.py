"""A node that plans itself before its kubelet starts: at the first boot, and when its machine has changed."""
