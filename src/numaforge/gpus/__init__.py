"""What is wrong with the GPUs of a machine, judged by rules that each say on which machines they apply."""
