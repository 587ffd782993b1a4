"""The machine: what is read of it (snapshot), and what that says (topology)."""
