"""The real kubelet with the arguments of k3s and of MicroK8s, and our drop-in: what it runs with.

Neither names a main file. k3s passes what its pkg/daemons/agent/agent_linux.go has; MicroK8s' kubelite
reads a file of arguments (`ReadArgsFromFile` in its 0000-Kubelite-integration.patch). A kubelet that logs
at level 2 prints its configuration as flags, drop-ins merged, before it checks it; the last argument ends
it there.
"""

import re
import subprocess
from dataclasses import replace

import pytest

from lab import gobuild
from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.kubelet import read_kubelet
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import plan_files
from tests.fixtures.machines import epyc_nps4

pytestmark = pytest.mark.lab

K3S, MICROK8S = "/var/lib/rancher/k3s/agent", "/var/snap/microk8s"
UNITS = {"k3s": "k3s-agent.service", "MicroK8s": "snap.microk8s.daemon-kubelite.service"}
K3S_FLAGS = (
    f"--config-dir={K3S}/etc/kubelet.conf.d",
    f"--kubeconfig={K3S}/kubelet.kubeconfig",
    "--read-only-port=0",
    "--hostname-override=gpu-01",
    "--cloud-provider=external",
    "--node-labels=",
)
K3S_DEFAULTS = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard: {imagefs.available: 5%, nodefs.available: 5%}
failSwapOn: false
serializeImagePulls: false
"""
MICROK8S_ARGUMENTS = """--resolv-conf=/run/systemd/resolve/resolv.conf
--kubeconfig=${SNAP_DATA}/credentials/kubelet.config
--cert-dir=${SNAP_DATA}/certs
--root-dir=${SNAP_COMMON}/var/lib/kubelet
--fail-swap-on=false
--eviction-hard="memory.available<100Mi,nodefs.available<1Gi,imagefs.available<1Gi"
--container-runtime-endpoint=${SNAP_COMMON}/run/containerd.sock
--node-labels="microk8s.io/cluster=true"
--read-only-port=0
"""
FILES = {
    "k3s": {f"{K3S}/etc/kubelet.conf.d/00-k3s-defaults.conf": K3S_DEFAULTS},
    "MicroK8s": {
        f"{MICROK8S}/current/args/kubelet": MICROK8S_ARGUMENTS,
        "/snap/microk8s/current/meta/snap.yaml": "version: v1.37.0\n",
    },
}
PROFILE = {
    "memory": {"system_reserved": "1Gi"},
    "kubelet": {
        "cpu_manager_policy": "static",
        "topology_manager_policy": "restricted",
        "memory_manager_policy": "Static",
    },
}


@pytest.mark.parametrize("name", FILES)
def test_numaforge_settings_take_effect_in_each_distribution(name, tmp_path):
    units = f"{UNITS[name]} 7 /system.slice/{UNITS[name]}\n"
    answers = {"units": units, "kubelet --version": "k3s version v1.37.0+k3s1 (3d)"}
    install = read_kubelet(Snapshot(files=FILES[name], commands=answers))
    machine = replace(epyc_nps4(), swap_bytes=0, kubelet=install)
    plan = plan_node(machine, load_profile(PROFILE))
    written = {file.path: file.text for file in plan_files(plan, machine.edited_kubelet_text)}
    files = {**FILES[name], **written}
    flags = K3S_FLAGS
    if name == "MicroK8s":
        flags = read_kubelet(Snapshot(files=files, commands=answers)).flags
    folder = tmp_path / "conf.d"
    for path, text in files.items():
        if path.startswith(f"{plan.kubelet.config_dir}/"):
            folder.mkdir(exist_ok=True)
            (folder / path.rpartition("/")[2]).write_text(text)
    assert f"--config-dir={plan.kubelet.config_dir}" in flags
    arguments = [flag.replace(plan.kubelet.config_dir, str(folder)) for flag in flags]
    kubelet = gobuild.build(gobuild.KUBERNETES) / "kubelet"
    said = subprocess.run(
        [kubelet, *arguments, f"--root-dir={tmp_path}", "--v=2", "--max-open-files=-1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    ).stderr
    shown = dict(re.findall(r'FLAG: --([\w-]+)="(.*)"$', said, re.MULTILINE))
    assert shown["cpu-manager-policy"] == "static"
    assert shown["topology-manager-policy"] == "restricted"
    assert shown["memory-manager-policy"] == "Static"
    assert shown["reserved-cpus"] == format_cpulist(plan.cpus.reserved)
    assert shown["reserved-memory"].count("memory=") == len(plan.kubelet.settings["reservedMemory"])
    assert shown["read-only-port"] == "0"
    assert "failed to validate kubelet configuration" in said
