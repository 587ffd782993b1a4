"""The files of all roles, written and removed together."""
