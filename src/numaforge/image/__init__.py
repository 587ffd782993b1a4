"""A node that comes from an image: how it is baked, and what it does before its kubelet starts."""
