"""What a command of the command line does: one module for each."""
