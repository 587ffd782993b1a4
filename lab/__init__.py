"""The virtual GPU node and the real Kubernetes it joins, on one machine and without KVM."""
