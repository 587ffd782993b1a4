"""CRI-O in place of containerd on a node of the lab, laid out as its packages are."""

import io
import subprocess
import tarfile
import tempfile

from lab import gobuild
from lab.node import Node
from tests.lab.rollouts import HEALTHY

_UNIT = """\
[Unit]
After=network.target
Before=kubelet.service
[Service]
Type=notify
ExecStart=/usr/bin/crio
OOMScoreAdjust=-999
TimeoutStartSec=0
Delegate=yes
"""
_OWN = "/usr/libexec/crio"
_SWITCH = r"""
set -e
systemctl stop kubelet lab-deviceplugin
systemctl stop containerd
systemctl disable containerd 2> /dev/null
systemctl daemon-reload
systemctl start crio
for file in $(grep -rls containerd[.]sock /var/lib/kubelet /etc/kubernetes); do
    sed -i 's#[a-z:/]*containerd[.]sock#unix:///var/run/crio/crio.sock#' "$file"
done
systemctl start kubelet
"""


def configuration(own: str, sbin: str) -> dict[str, str]:
    """Return its files by path, for programs of its own and a runc in these folders."""
    runc = f"""\
[crio.image]
signature_policy = "/etc/crio/policy.json"
[crio.runtime]
default_runtime = "runc"
disable_hostport_mapping = true
pinns_path = "{own}/pinns"
[crio.runtime.runtimes.runc]
runtime_path = "{sbin}/runc"
runtime_root = "/run/runc"
monitor_path = "{own}/conmon"
"""
    return {
        "/etc/crio/crio.conf.d/10-crio.conf": runc,
        "/etc/crio/policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}\n',
    }


def install(node: Node) -> None:
    """Have the node's kubelet run with CRI-O; it has no pods."""
    crio = gobuild.build(gobuild.CRIO) / "crio"
    files = {
        **configuration(_OWN, "/usr/sbin"),
        "/etc/systemd/system/crio.service": _UNIT,
        # They would have work with the first pod.
        f"{_OWN}/conmon": "#!/bin/sh\necho conmon version 2.1.12\n",
        f"{_OWN}/pinns": "#!/bin/sh\n",
    }
    with tempfile.TemporaryFile() as cargo:
        with tarfile.open(fileobj=cargo, mode="w") as tar:
            for name, text in files.items():
                entry = tarfile.TarInfo(name.removeprefix("/"))
                entry.size, entry.mode = len(text), 0o755
                tar.addfile(entry, io.BytesIO(text.encode()))
            tar.add(crio, arcname="usr/bin/crio")
        cargo.seek(0)
        unpack = [*node.ssh_arguments(), "tar -C / -x --no-same-owner"]
        subprocess.run(unpack, stdin=cargo, check=True)
    node.run(_SWITCH)
    node.run(HEALTHY)
