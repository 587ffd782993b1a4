"""Nodes from images: baking, and what a node does before its kubelet starts."""
