"""Time a new user's path: from a clone to a first answer, a dry run, and an applied node.

The commands of the README's first screen are run as pasted. The node is a sandbox with a real sshd and
stand-ins for systemd and the kubelet.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import data
from tests.ssh.sandbox import free_port, running_sandbox
from tests.ssh.site_runs import inventory

REPOSITORY = Path(__file__).parents[1]
PROMISED_CPU_SECONDS = 120


def main() -> None:
    """Print the seconds since the start at each step, and fail beyond the promised CPU time."""
    section = (REPOSITORY / "README.md").read_text().partition("## A first look\n")[2].partition("\n## ")[0]
    install, look = re.findall(r"(?:^    \S.*\n)+", section, re.MULTILINE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {
            **os.environ,
            "HOME": name,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        (folder / "node").mkdir()
        port = free_port()
        with running_sandbox(folder / "node", kubeadm_files(port)) as node:
            start_kubelet(node, port)
            hosts = inventory(folder, data(node))
            began = time.monotonic()
            path = 'PATH=~/numaforge/bin:"$PATH"'
            for what, script in (
                ("clone", f"git clone --quiet {REPOSITORY} clone"),
                ("installed", f"cd clone\n{install}"),
                ("first answer", f"{path}\n{look.splitlines()[0]}"),
                ("the first screen's commands", f"{path}\n{look}"),
                ("dry run of a node", f"{path}\nnumaforge apply --dry {hosts}"),
                ("applied", f"{path}\nnumaforge apply --yes {hosts}"),
            ):
                subprocess.run(
                    ["sh", "-ec", script], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
                )
                used = os.times().children_user + os.times().children_system
                print(f"{what}: {time.monotonic() - began:.1f} s, {used:.1f} s of CPU time")
    assert used < PROMISED_CPU_SECONDS


if __name__ == "__main__":
    main()
