"""Interpret a snapshot: what is there, with everything unknown kept as None."""
