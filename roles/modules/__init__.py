"""Kernel modules: loaded now and at boot, with their options, or kept out."""
