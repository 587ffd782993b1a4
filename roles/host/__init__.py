"""The userland: limits, packages that stay at their version, no swap at boot."""
