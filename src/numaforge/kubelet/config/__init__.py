"""A kubelet's configuration as it loads it: flags, main file, defaults, drop-ins, feature gates."""
