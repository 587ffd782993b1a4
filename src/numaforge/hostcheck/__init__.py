"""What is wrong with the userland of a host, judged by rules that each say on which machines they apply."""
