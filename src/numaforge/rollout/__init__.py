"""Change a live fleet, a few nodes at a time: cordon, drain, change, prove, put back or undo."""
