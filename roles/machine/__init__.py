"""The machine itself: what an admin should know about it before applying a plan."""
