"""The boot that other parts need, and its undo."""
