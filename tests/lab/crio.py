"""CRI-O in place of containerd on a node of the lab, laid out as its packages are."""

import io
import subprocess
import tarfile
import tempfile

from lab import gobuild
from lab.node import Node
from tests.lab.rollouts import HEALTHY

_FILES = {
    "etc/crio/crio.conf.d/10-crio.conf": """\
[crio.image]
signature_policy = "/etc/crio/policy.json"
[crio.runtime]
default_runtime = "runc"
pinns_path = "/usr/libexec/crio/pinns"
[crio.runtime.runtimes.runc]
runtime_path = "/usr/sbin/runc"
runtime_root = "/run/runc"
monitor_path = "/usr/libexec/crio/conmon"
""",
    "etc/crio/policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}\n',
    "etc/systemd/system/crio.service": """\
[Unit]
After=network.target
Before=kubelet.service
[Service]
Type=notify
ExecStart=/usr/bin/crio
OOMScoreAdjust=-999
TimeoutStartSec=0
Delegate=yes
""",
    "usr/libexec/crio/conmon": "#!/bin/sh\necho conmon version 2.1.12\n",
    "usr/libexec/crio/pinns": "#!/bin/sh\n",
}
"""What it asks for as it starts; conmon and pinns would have work with the first pod."""
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


def install(node: Node) -> None:
    """Have the node's kubelet run with CRI-O; it has no pods."""
    crio = gobuild.build(gobuild.CRIO) / "crio"
    with tempfile.TemporaryFile() as cargo:
        with tarfile.open(fileobj=cargo, mode="w") as tar:
            for name, text in _FILES.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text), 0o755
                tar.addfile(entry, io.BytesIO(text.encode()))
            tar.add(crio, arcname="usr/bin/crio")
        cargo.seek(0)
        unpack = [*node.ssh_arguments(), "tar -C / -x --no-same-owner"]
        subprocess.run(unpack, stdin=cargo, check=True)
    node.run(_SWITCH)
    node.run(HEALTHY)
