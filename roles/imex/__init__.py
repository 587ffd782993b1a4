"""IMEX, with which trays of a rack share GPU memory: what runs its daemon, and with which nodes."""
