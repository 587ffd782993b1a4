"""What pods may request from CRI-O for their own CPUs."""
