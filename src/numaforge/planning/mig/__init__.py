"""Plan MIG geometries: which GPU instances of a GPU lie where, and what changes for them."""
