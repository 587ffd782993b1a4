"""Change a live node: one transaction that undoes itself."""
