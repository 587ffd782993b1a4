"""Everything that numaforge can do to a node, a folder each."""
