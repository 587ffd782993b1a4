"""The commands of the command line, one module each.

Imports that `--help` does not need are inside the functions that use them.
"""
