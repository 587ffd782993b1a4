"""Whether a kubelet would start with a configuration on a machine."""
