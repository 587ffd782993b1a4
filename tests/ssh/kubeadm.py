"""A node as kubeadm leaves it: a small machine, a stand-in for systemd, and a kubelet that runs."""

from tests.fixtures.machines import KUBEADM_CONFIG
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import STATE, standin_systemd

CONFIG = "/var/lib/kubelet/config.yaml"
UNIT = "/usr/lib/systemd/system/kubelet.service"


def kubeadm_files(port: int, *flags: str) -> dict[str, str]:
    """Return the files, by path; the kubelet has these flags, too, and is healthy on the port."""
    command = " ".join(("/usr/local/bin/kubelet", f"--config={CONFIG}", *flags))
    return {
        **machine(),
        **standin_systemd(port),
        CONFIG: KUBEADM_CONFIG.replace("healthzPort: 10248", f"healthzPort: {port}"),
        UNIT: f"[Service]\nExecStart={command}\n",
    }


def start_kubelet(node: Sandbox, port: int) -> Sandbox:
    """Have systemd run and start the kubelet; return the node once it is healthy and its managers run."""
    node.run("mkdir -p /run/systemd/system")
    ready = f"[ -e {STATE} ] && curl -fs http://127.0.0.1:{port}/"
    node.run(f"systemctl start kubelet.service; until {ready}; do sleep 0.05; done")
    return node
