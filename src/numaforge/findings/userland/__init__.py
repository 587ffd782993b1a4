"""What is wrong with the userland of a host, and who else tunes it."""
