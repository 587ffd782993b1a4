"""The paths of kubeadm's kubelet, and of any kubelet without other flags."""

CONFIG_PATH = "/var/lib/kubelet/config.yaml"
DROP_IN_DIR = "/etc/kubernetes/kubelet.conf.d"
"""The folder in the kubelet's documentation; read only with --config-dir."""
ROOT_DIR = "/var/lib/kubelet"
