"""Pod admission, simulated: the topology, CPU, memory and device managers of kubelet 1.37."""
