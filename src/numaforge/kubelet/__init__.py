"""The kubelet's own rules: options by version, and whether it would start with a configuration."""
