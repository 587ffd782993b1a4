"""Dynamic resource allocation: what a node allocates by claims, and with which driver."""
