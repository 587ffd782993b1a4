"""A kubelet and a container runtime that start on this machine as in a rehearsal, but for control groups.

They have namespaces of their own, and what they write is memory. As on a new node there is no folder of CNI.
Needs root.
"""

import base64
import subprocess

from lab import gobuild, kubelets
from numaforge.lib.shell import library
from tests.lab.crio import configuration

CONFIGURATION = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
cpuManagerPolicy: static
reservedSystemCPUs: "0"
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
"""
_APART = ("unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
_PROGRAMS = {"runc": "runc version 1.1.5", "conmon": "conmon version 2.1.12", "pinns": ""}
"""What CRI-O asks programs for that have work with the first pod."""
_SCRIPT = """
mount -o remount,bind,ro / && mount -t tmpfs rehearsal /run || exit
mkdir /run/less && mknod /run/less/cni c 0 0 || exit
for folder in /etc /opt; do mount -t overlay -o "lowerdir=/run/less:$folder" less "$folder" || exit; done
mkdir -p "$OWN" "$4" /run/bin || exit
root_dir=/var/lib/kubelet
for folder in "$root_dir" /var/log /var/lib/containers /var/lib/crio; do hide "$folder"; done
each file write
hide_kernel_values
chmod -R 755 /run/bin
export GOMAXPROCS=1 GOGC=off GOMEMLIMIT=768MiB
look_at_clock
begun=$now deadline=$((now + 12000)) runtime=$2
start_runtime "$2" "$3" "$4/$2.sock"
"$1" --config /run/kubelet.yaml --container-runtime-endpoint "unix://$4/$2.sock" \\
    > "$OWN/output" 2>&1 < /dev/null &
await_managers "$!" 2> /dev/null
cat "/proc/$!/stat" "/proc/$runtime_pid/stat"
"""


def start(runtime: str, more: str = "", minor: str = kubelets.OWN) -> tuple[str, float]:
    """Return how a kubelet's start with `containerd` or `crio` ended, and the CPU time of both.

    `more` is added to its configuration; `minor` is the kubelet's.
    """
    program = gobuild.build(gobuild.CRIO if runtime == "crio" else gobuild.CONTAINERD) / runtime
    files = {
        "/run/kubelet.yaml": CONFIGURATION + more,
        **{f"/run/bin/{name}": f"#!/bin/sh\necho {text}\n" for name, text in _PROGRAMS.items()},
        **(configuration("/run/bin", "/run/bin") if runtime == "crio" else {}),
    }
    data = "".join(
        f"file {path} {base64.b64encode(text.encode()).decode()}\n" for path, text in files.items()
    )
    functions, _, end = library("node/rehearsal").rpartition("hidden_folders=")
    functions += f"hidden_folders={end}".replace('\n"$@"\n', "\n")
    script = functions + _SCRIPT.replace(
        "each file write", f"cat > $OWN/data <<'END'\n{data}END\neach file write"
    )
    done = subprocess.run(
        [
            *_APART,
            "sh",
            "-c",
            script,
            "sh",
            str(kubelets.build(minor)),
            runtime,
            str(program),
            f"/run/{runtime}",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    outcomes = [line for line in lines if line.startswith(("outcome ", "cannot "))]
    assert outcomes, done.stdout + done.stderr
    ticks = [
        int(tick) for line in lines if line[:1].isdigit() for tick in line.rpartition(")")[2].split()[11:13]
    ]
    return outcomes[0], sum(ticks) / 100
