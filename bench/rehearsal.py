"""What a rehearsal costs of CPU on a real machine: kubelet and containerd of the lab, until the managers run.

Both start in namespaces of their own, as in a rehearsal, and without control groups, which not every machine
that measures can give away. Needs root.

    bench/rehearsal.py [--runs N]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import gobuild
from numaforge.lib.shell import library

_APART = ("unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
_CONFIGURATION = """\
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
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
"""
_SCRIPT = """
cpu_of() { cut -d ' ' -f 14,15 "/proc/$1/stat"; }
mount -t tmpfs rehearsal /run && mkdir -p "$OWN" /run/containerd || exit
for folder in /var/lib/kubelet /var/log; do
    mkdir -p "$folder" && mount -t tmpfs rehearsal "$folder" || exit
done
hide_kernel_values
export GOMAXPROCS=1 GOGC=off GOMEMLIMIT=768MiB
look_at_clock
begun=$now deadline=$((now + 6000)) runtime=containerd
start_runtime containerd "$2" /run/containerd/containerd.sock
cat > "$OWN/kubelet.yaml"
"$1" --config "$OWN/kubelet.yaml" > "$OWN/output" 2>&1 < /dev/null &
until grep -qsF "$STARTED" "$OWN/output"; do
    kill -0 "$!" 2> /dev/null || { tail -n 1 "$OWN/output" >&2; exit 1; }
    sleep 0.05
done
cpu_of "$!"
cpu_of "$runtime_pid"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="measure what a rehearsal costs of CPU")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    kubelet = gobuild.build(gobuild.KUBERNETES) / "kubelet"
    containerd = gobuild.build(gobuild.CONTAINERD) / "containerd"
    functions = library("node/rehearsal").rpartition("set -f")[0]
    runs = []
    for _ in range(chosen.runs):
        done = subprocess.run(
            [*_APART, "sh", "-c", functions + _SCRIPT, "sh", str(kubelet), str(containerd)],
            input=_CONFIGURATION,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"no measurement: {done.stderr.strip() or done.stdout.strip()}")
        runs.append(sum(map(int, done.stdout.split())) / 100)
    print(
        f"kubelet and containerd: {statistics.median(runs):.2f} s of CPU, {min(runs):.2f} to {max(runs):.2f}"
    )


if __name__ == "__main__":
    main()
