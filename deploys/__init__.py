"""One file per thing that an admin runs; each is a list of roles, one a line."""
