"""The node's own watch: it regularly compares itself with its plan, without numaforge."""
