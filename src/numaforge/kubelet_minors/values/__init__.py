"""How Go and Kubernetes read and print values: durations, JSON, CPU lists, labels."""
