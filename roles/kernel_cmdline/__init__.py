"""The kernel's command line, which only a boot changes."""
