"""What schedulers and other systems of a cluster read of nodes, from their plans: a module for each system.

A module has NAME, WHY and `documents(fleet)`. What a system cannot say of a node is left out, and named.
"""
