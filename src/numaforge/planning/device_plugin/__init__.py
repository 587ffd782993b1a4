"""What NVIDIA's device plugin is told, and which resources a node advertises with it."""
