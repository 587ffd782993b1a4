"""The GPUDirect doctor: whether GPUs and NICs reach each other, why not, and remedies."""
