"""What runs on a node alone: the shell of a transaction, and what the programs of roles have in common."""
