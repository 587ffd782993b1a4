"""A maintenance as the controller sees it: the look at a node, what it needs, the transaction, its status."""
