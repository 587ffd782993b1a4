"""How NVIDIA's device plugin shares GPUs, and the labels of the Node."""
