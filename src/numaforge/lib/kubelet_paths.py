"""The paths of kubeadm's kubelet, and of any kubelet without other flags."""

CONFIG_PATH = "/var/lib/kubelet/config.yaml"
DROP_IN_DIR = "/etc/kubernetes/kubelet.conf.d"
"""The folder in the kubelet's documentation; read only with --config-dir."""
DROP_IN_NAME = "90-numaforge.conf"
"""Our drop-in of the kubelet's configuration, and that of its unit."""
ROOT_DIR = "/var/lib/kubelet"
