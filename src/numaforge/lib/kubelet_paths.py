"""Where a kubelet that kubeadm sets up has its files, and any kubelet whose flags say nothing else."""

CONFIG_PATH = "/var/lib/kubelet/config.yaml"
DROP_IN_DIR = "/etc/kubernetes/kubelet.conf.d"
"""The folder that the kubelet's documentation names; nothing is read there without --config-dir."""
ROOT_DIR = "/var/lib/kubelet"
