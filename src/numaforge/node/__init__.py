"""Code that runs only on a node: the shell of a transaction, and what the roles' programs share."""
