"""Hosts through pyinfra: our facts, our operations, and how a host fails."""
