"""What schedulers and other cluster systems read of nodes, generated from plans: one module per system.

A module has WHY and `documents(fleet)`. What a system cannot express is left out, and named.
"""
