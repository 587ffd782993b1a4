"""What becomes of another tool's file: a profile that loads and plans, and a note for what it cannot say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.kubelet_minors.fields import ROOT_TYPE
from numaforge.kubelet_minors.tables import FIELDS
from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.machine.topology.read import read_topology
from numaforge.planning.convert.forms import FORMS, convert
from numaforge.planning.convert.kubelet_configuration import KUBELET_ROWS
from numaforge.planning.convert.rows import Fate, FieldRow, read
from numaforge.planning.convert.yaml_text import as_yaml
from numaforge.planning.json_schema import json_schema
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile, ready_profiles
from tests.machines.files import stored

SAMPLES = REPOSITORY / "tests" / "fixtures" / "convert"
CHOSEN = {"mig-parted.yaml": "seven", "eksctl.yaml": "a100"}
KIND_OF = {
    "aks.json": "aks",
    "bottlerocket.toml": "eks",
    "ec2nodeclass.yaml": "karpenter",
    "eksctl.yaml": "eks",
    "gke.yaml": "gke",
    "grub": "grub",
    "k3s.yaml": "k3s",
    "kubeadmconfigtemplate.yaml": "cluster-api",
    "kubelet.yaml": "kubeletconfiguration",
    "kubeletconfig.yaml": "kubeletconfiguration",
    "kubespray.yaml": "kubespray",
    "mig-parted.yaml": "mig-parted",
    "nodeconfig.mime": "eks",
    "nodeconfig.yaml": "eks",
    "performanceprofile-v1alpha1.yaml": "performanceprofile",
    "performanceprofile.yaml": "performanceprofile",
    "sysctl.conf": "sysctl",
    "talos.yaml": "talos",
    "tuned.conf": "tuned",
    "tuned.yaml": "tuned",
}


def text_of(sample: str) -> str:
    return (SAMPLES / sample).read_text(encoding="utf-8")


def converted(sample: str, kind: str = "auto"):
    return convert(text_of(sample), sample, kind, CHOSEN.get(sample))


def performance(**spec: Any) -> str:
    """Return a PerformanceProfile with these sections beside its CPUs."""
    cpu = {"reserved": "0,112", "isolated": "1-111,113-223"}
    body = {"cpu": cpu, "nodeSelector": {"gpu": ""}, **spec}
    head = {"apiVersion": "performance.openshift.io/v2", "kind": "PerformanceProfile"}
    return yaml.safe_dump({**head, "metadata": {"name": "performance"}, "spec": body})


def kubelet(**fields: Any) -> str:
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return yaml.safe_dump({**head, **fields})


PARTS = [{"numaNode": 0, "limits": {"memory": "1Gi"}}]


def value_at(document: Any, path: str) -> Any:
    """Return what a profile says at a path whose last name may hold dots."""
    while path:
        name = next((key for key in document if path == key or path.startswith(f"{key}.")), None)
        if name is None:
            return None
        document, path = document[name], path[len(name) + 1 :]
    return document


def all_rows() -> list[FieldRow]:
    return [row for form in FORMS for row in (*form.rows, *form.extra[1])]


# What comes out


@pytest.mark.parametrize("sample", sorted(KIND_OF))
def test_every_sample_is_told_by_itself_and_by_its_kind(sample):
    assert converted(sample) == converted(sample, KIND_OF[sample])


def test_every_sample_is_listed():
    assert sorted(path.name for path in SAMPLES.iterdir()) == sorted(KIND_OF)


@pytest.mark.parametrize("sample", sorted(KIND_OF))
def test_the_file_that_is_written_is_the_profile(sample, tmp_path):
    made = converted(sample)
    file = tmp_path / "profile.yaml"
    file.write_text(as_yaml(made, sample), encoding="utf-8")
    assert yaml.safe_load(file.read_text()) == made.profile
    assert load_profile(file) == load_profile({"name": "profile", **made.profile})


@pytest.mark.parametrize("sample", sorted(KIND_OF))
def test_every_value_says_which_field_it_comes_from(sample):
    made = converted(sample)
    for key in made.origins:
        assert value_at(made.profile, key) is not None, key
    roots = {key.partition(".")[0] for key in made.origins}
    assert roots == set(made.profile)


@pytest.mark.parametrize("sample", sorted(set(KIND_OF)))
def test_a_profile_plans_on_a_machine_that_it_fits(sample):
    machine = read_topology(stored("nvidia-dgx-h100").snapshot())
    planned = plan_node(machine, load_profile({"name": "converted", **converted(sample).profile}), "1.34.4")
    said = value_at(converted(sample).profile, "cpus.reserved.cpulist")
    assert planned.cpus.reserved
    assert said is None or planned.cpus.reserved == parse_cpulist(said)


def test_where_the_machine_does_not_fit_planning_refuses():
    machine = read_topology(stored("nvidia-hgx-a100").snapshot())
    profile = load_profile({"name": "converted", **converted("performanceprofile.yaml").profile})
    with pytest.raises(PlanError, match=r"cuts cores in two|does not have|not online"):
        plan_node(machine, profile, "1.34.4")


@pytest.mark.parametrize("ready", ready_profiles())
@pytest.mark.parametrize("kind", ["nvidia-dgx-h100", "epyc-9654-nps4", "nvidia-gh200"])
def test_a_planned_kubelet_comes_back_as_a_profile_that_plans_it(kind, ready):
    machine = read_topology(stored(kind).snapshot())
    planned = plan_node(machine, load_profile(ready), "1.34.4").kubelet.settings
    made = convert(kubelet(**plain(planned)), "kubelet.yaml")
    again = plan_node(machine, load_profile({"name": "again", **made.profile}), "1.34.4").kubelet.settings
    assert plain(again) == plain(planned)


def plain(value: Any) -> Any:
    """Return mappings and lists as YAML has them."""
    if isinstance(value, Mapping):
        return {key: plain(held) for key, held in value.items()}
    return [plain(held) for held in value] if isinstance(value, (list, tuple)) else value


def bottlerocket(**nvidia: Any) -> str:
    """Return settings of Bottlerocket for NVIDIA's device plugin."""
    return yaml.safe_dump({"settings": {"kubelet-device-plugins": {"nvidia": nvidia}}})


def talos(**kubelet_section: Any) -> str:
    return yaml.safe_dump({"machine": {"kubelet": kubelet_section}})


def capi(kind: str, path: str, arguments: object) -> str:
    """Return an object of Cluster API with kubelet arguments below a path."""
    document: object = {"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": arguments}}}
    for name in reversed(path.split(".")):
        document = {name: document}
    return yaml.safe_dump({"apiVersion": "x/v1beta1", "kind": kind, **dict(document)})


BECOMES = {
    "arguments of k3s": (
        "kubelet-arg: [cpu-manager-policy=static]\n",
        "kubelet.cpu_manager_policy",
        "static",
    ),
    "an argument of k3s alone": ("kubelet-arg: reserved-cpus=0-1\n", "cpus.reserved.cpulist", "0-1"),
    "arguments that k3s adds": ("kubelet-arg+: [--reserved-cpus=0-1]\n", "cpus.reserved.cpulist", "0-1"),
    "arguments of Talos win over its configuration": (
        talos(extraArgs={"cpu-manager-policy": "static"}, extraConfig={"cpuManagerPolicy": "none"}),
        "kubelet.cpu_manager_policy",
        "static",
    ),
    "sysctls of Talos": ('machine: {sysctls: {fs.file-max: "1"}}\n', "tuning.sysctls", {"fs.file-max": "1"}),
    "modules of Talos": ("machine: {kernel: {modules: [{name: nvidia}]}}\n", "modules.load", ["nvidia"]),
    "arguments of kubeadm as a mapping": (
        capi("KubeadmConfigTemplate", "spec.template.spec", {"cpu-manager-policy": "static"}),
        "kubelet.cpu_manager_policy",
        "static",
    ),
    "arguments of kubeadm as a list": (
        capi("KubeadmConfig", "spec", [{"name": "cpu-manager-policy", "value": "static"}]),
        "kubelet.cpu_manager_policy",
        "static",
    ),
    "arguments of a control plane": (
        capi("KubeadmControlPlane", "spec.kubeadmConfigSpec", {"cpu-manager-policy": "static"}),
        "kubelet.cpu_manager_policy",
        "static",
    ),
    "reservations of Karpenter": (
        "apiVersion: karpenter.k8s.aws/v1\nspec: {kubelet: {systemReserved: {memory: 1Gi}}}\n",
        "memory.system_reserved",
        "1Gi",
    ),
    "a kubelet of AKS": (
        '{"cpuManagerPolicy": "static", "topologyManagerPolicy": "best-effort"}',
        "kubelet.topology_manager_policy",
        "best-effort",
    ),
    "sysctls of AKS": (
        '{"swapFileSizeMB": 0, "sysctls": {"vmMaxMapCount": 262144}}',
        "tuning.sysctls",
        {"vm.max_map_count": 262144},
    ),
    "a file of sysctl.d": (
        "# why\n-net/core/somaxconn=1\nfs.file-max = 2\n",
        "tuning.sysctls",
        {"net.core.somaxconn": "1", "fs.file-max": "2"},
    ),
    "kernel parameters of GRUB": ('GRUB_CMDLINE_LINUX="iommu=pt"\n', "kernel.cmdline", ["iommu=pt"]),
    "huge pages of GRUB, of the size before them": (
        'GRUB_CMDLINE_LINUX="hugepages=4 hugepagesz=1G hugepages=0:2,1:6"\n',
        "hugepages",
        [
            {"size": "2Mi", "count": 4},
            {"size": "1Gi", "count": 2, "numa_node": 0},
            {"size": "1Gi", "count": 6, "numa_node": 1},
        ],
    ),
    "consoles early and late in their order": (
        'GRUB_CMDLINE_LINUX="earlycon console=tty0 console=ttyS0"\n',
        "kernel.cmdline",
        ["earlycon", "console=tty0", "console=ttyS0"],
    ),
    "shares of Bottlerocket": (
        bottlerocket(**{"device-sharing-strategy": "time-slicing", "time-slicing": {"replicas": 3}}),
        "device_plugin.time_slicing",
        {"nvidia.com/gpu": 3},
    ),
    "MPS of Bottlerocket": (
        bottlerocket(**{"device-sharing-strategy": "mps", "mps": {"replicas": 3, "rename-by-default": True}}),
        "device_plugin",
        {"mps": {"nvidia.com/gpu": 3}, "rename_shared": True},
    ),
    "MIG of Bottlerocket": (
        bottlerocket(**{"device-partitioning-strategy": "mig", "mig": {"profile": {"a100.40gb": "3g.20gb"}}}),
        "mig.gpus",
        [{"model": "a100-40gb", "devices": {"3g.20gb": "all"}}],
    ),
    "a number of partitions of Bottlerocket": (
        bottlerocket(**{"device-partitioning-strategy": "mig", "mig": {"profile": {"h100.80gb": "7"}}}),
        "mig.gpus",
        [{"model": "h100-80gb", "devices": {"1g": "all"}}],
    ),
    "reserved CPUs are those that are named": (performance(), "cpus.reserved.cpulist", "0,112"),
    "shared CPUs are reserved with mixedCpus": (
        performance(
            cpu={"reserved": "0,112", "isolated": "2-111,114-223", "shared": "1,113"},
            workloadHints={"mixedCpus": True},
        ),
        "cpus.reserved.cpulist",
        "0-1,112-113",
    ),
    "balanced CPUs are kept from managed interrupts": (
        performance(),
        "kernel.cmdline",
        ["isolcpus=managed_irq,1-111,113-223"],
    ),
    "unbalanced CPUs are isolated": (
        performance(cpu={"reserved": "0,112", "isolated": "1-111,113-223", "balanceIsolated": False}),
        "kernel.isolated_cpus",
        "1-111,113-223",
    ),
    "no topology policy is best-effort": (performance(), "kubelet.topology_manager_policy", "best-effort"),
    "best-effort leaves memory alone": (performance(), "kubelet.memory_manager_policy", "None"),
    "restricted pins memory": (
        performance(numa={"topologyPolicy": "restricted"}),
        "kubelet.memory_manager_policy",
        "Static",
    ),
    "single-numa-node takes whole cores": (
        performance(numa={"topologyPolicy": "single-numa-node"}),
        "kubelet.cpu_manager_options",
        {"full-pcpus-only": "true"},
    ),
    "the operator reserves 500Mi": (performance(), "memory.kube_reserved", "500Mi"),
    "a page without a node is spread": (
        performance(hugepages={"defaultHugepagesSize": "1G", "pages": [{"size": "1G", "count": 4}]}),
        "hugepages",
        [{"size": "1Gi", "count": 4}],
    ),
    "power for each pod leaves the governor alone": (
        performance(workloadHints={"perPodPowerManagement": True}),
        "tuning.governor",
        None,
    ),
    "the operator's handler lets pods ask for all but a governor beside the node's": (
        performance(),
        "pod_tuning.allow",
        ["interrupts", "cpu_quota", "load_balancing", "c_states"],
    ),
    "power for each pod lets pods ask for a governor": (
        performance(workloadHints={"perPodPowerManagement": True}),
        "pod_tuning.allow",
        ["interrupts", "cpu_quota", "load_balancing", "c_states", "governor"],
    ),
    "no interrupts on any pod's CPUs leave none to be asked for": (
        performance(globallyDisableIrqLoadBalancing=True),
        "pod_tuning.allow",
        ["cpu_quota", "load_balancing", "c_states"],
    ),
    "pods keep the name of the operator's runtime class": (
        performance(),
        "pod_tuning.runtime_class",
        "performance-performance",
    ),
    "real-time sysctls come with the hint alone": (
        performance(workloadHints={"realTime": False}),
        "tuning.sysctls.vm.stat_interval",
        None,
    ),
    "parameters that a key says are said once": (
        performance(additionalKernelArgs=["iommu=pt", "skew_tick=1", "audit=0"]),
        "kernel.cmdline",
        ["isolcpus=managed_irq,1-111,113-223", "audit=0"],
    ),
    "equal parts are an even split": (
        kubelet(
            kubeReserved={"memory": "1Gi"},
            systemReserved={"memory": "924Mi"},
            reservedMemory=[{"numaNode": node, "limits": {"memory": "1Gi"}} for node in (0, 1)],
        ),
        "memory.split",
        "even",
    ),
    "TuneD's first governor": ("[cpu]\ngovernor=performance|schedutil\n", "tuning.governor", "performance"),
    "TuneD's comment beside a value": ("[cpu]\ngovernor=powersave # x\n", "tuning.governor", "powersave"),
    "TuneD's latency after a state's name": (
        "[cpu]\nforce_latency=cstate.name:C1|10\n",
        "tuning.cpu_idle.max_latency_us",
        10,
    ),
    "TuneD's state without a number": (
        "[cpu]\nforce_latency=cstate.name:C1E\n",
        "tuning.cpu_idle.deepest",
        "C1E",
    ),
    "TuneD's variables are put in": (
        "[variables]\nmost=1\n[sysctl]\nvm.swappiness=${most}\n",
        "tuning.sysctls",
        {"vm.swappiness": 1},
    ),
    "TuneD's CPUs of another file are the allocatable ones": (
        "[bootloader]\ncmdline=nohz_full=${isolated_cores}\n",
        "kernel.nohz_full",
        "allocatable",
    ),
    "TuneD takes parameters away again": (
        "[bootloader]\ncmdline_a=audit=0 quiet\ncmdline_b=-quiet\n",
        "kernel.cmdline",
        ["audit=0"],
    ),
    "a computed parameter is left out as a whole": (
        "[bootloader]\ncmdline=nohz=on${f:regex:${x}:a: isolcpus=1} audit=0\n",
        "kernel.cmdline",
        ["audit=0"],
    ),
    "what is for some machines is left out": (
        "[vm]\ndirty_ratio=3\n[vm.arm]\ntype=vm\nuname_regex=aarch64\ndirty_ratio=9\n",
        "tuning.sysctls",
        {"vm.dirty_ratio": 3},
    ),
    "what is for some CPUs is left out": ("[cpu]\ndevices=cpu1\ngovernor=powersave\n[vm]\n", "tuning", None),
    "a cpulist may be a number": (
        performance(cpu={"reserved": 0, "isolated": "1-111"}),
        "cpus.reserved.cpulist",
        "0",
    ),
    "a section that is off is left out": (
        "[cpu]\nenabled=false\ngovernor=powersave\n[vm]\ndirty_ratio=3\n",
        "tuning.governor",
        None,
    ),
    "a percentage is a ratio": ("[vm]\ndirty_bytes=10%\n", "tuning.sysctls", {"vm.dirty_ratio": 10}),
    "kubespray's default amount": ("kube_reserved: true\n", "memory.kube_reserved", "256Mi"),
    "kubespray's switch that is off": ("kube_reserved: false\nkube_memory_reserved: 1Gi\n", "memory", None),
    "kubespray's later lines win": (
        "kubelet_cpu_manager_policy: none\nkubelet_config_extra_args: {cpuManagerPolicy: static}\n",
        "kubelet.cpu_manager_policy",
        "static",
    ),
    "GKE's words for a policy": (
        "kubeletConfig: {topologyManager: {policy: BestEffort}}\n",
        "kubelet.topology_manager_policy",
        "best-effort",
    ),
    "GKE's fifth way to defragment": (
        "linuxConfig: {transparentHugepageDefrag: TRANSPARENT_HUGEPAGE_DEFRAG_DEFER}\n",
        "tuning.transparent_hugepages.defrag",
        "defer",
    ),
    "every console, in its order": (
        "[bootloader]\ncmdline=console=tty0 console=ttyS0,115200n8\n",
        "kernel.cmdline",
        ["console=tty0", "console=ttyS0,115200n8"],
    ),
    "the consoles of a PerformanceProfile": (
        performance(additionalKernelArgs=["console=tty0", "console=ttyS0,115200n8"]),
        "kernel.cmdline",
        ["isolcpus=managed_irq,1-111,113-223", "console=tty0", "console=ttyS0,115200n8"],
    ),
    "every option of pci, in one parameter": (
        "[bootloader]\ncmdline=pci=realloc=off pci=noaer\n",
        "kernel.cmdline",
        ["pci=realloc=off,noaer"],
    ),
    "the size of conntrack's table is a parameter of its module": (
        "[net]\nnf_conntrack_hashsize=131072\n",
        "modules.options",
        {"nf_conntrack": ["hashsize=131072"]},
    ),
    "a switch of kubespray as text": (
        "kube_reserved: 'yes'\nkube_memory_reserved: 5Gi\n",
        "memory.kube_reserved",
        "5Gi",
    ),
    "a variable that is none of ours may be encrypted": (
        "kube_reserved: true\nkube_memory_reserved: 5Gi\npassword: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n",
        "memory.kube_reserved",
        "5Gi",
    ),
    "a variable that is none of ours may be unsafe": (
        "kube_reserved: true\nkube_memory_reserved: 5Gi\nmotd: !unsafe 'Hello {{ user }}'\n",
        "memory.kube_reserved",
        "5Gi",
    ),
    "a flag of kubespray's that the kubelet knows": (
        "kubelet_custom_flags: [--cpu-manager-policy=static, '--node-ip={{ ip }}']\n",
        "kubelet.cpu_manager_policy",
        "static",
    ),
    "flags in one text": (
        "kubelet_custom_flags: '--kube-reserved=memory=2Gi --reserved-cpus=0-3'\n",
        "cpus.reserved.cpulist",
        "0-3",
    ),
    "a flag wins over kubespray's variable": (
        "kubelet_cpu_manager_policy: none\nkubelet_node_custom_flags: [--cpu-manager-policy=static]\n",
        "kubelet.cpu_manager_policy",
        "static",
    ),
    "a flag of nodeadm wins over its configuration": (
        (
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n"
            "    config: {systemReserved: {memory: 1Gi}}\n    flags: [--system-reserved=memory=2Gi]\n"
        ),
        "memory.system_reserved",
        "2Gi",
    ),
}


@pytest.mark.parametrize(("text", "key", "value"), BECOMES.values(), ids=list(BECOMES))
def test_a_field_becomes_a_key(text, key, value):
    assert value_at(convert(text, "file").profile, key) == value


def test_offlined_cpus_and_queues_become_what_numaforge_sets_itself():
    text = performance(
        cpu={"reserved": "0,112", "isolated": "1-55,113-167", "offlined": "56-111,168-223"},
        net={"userLevelNetworking": True},
    )
    profile = convert(text, "file").profile
    assert profile["cpus"]["offline"] == "56-111,168-223"
    assert profile["nic_queues"] == {"combined": "reserved"}
    load_profile(profile)


NOTED = {
    "parts that do not add up are left out": (
        kubelet(memoryManagerPolicy="Static", kubeReserved={"memory": "1Gi"}, reservedMemory=PARTS),
        "reservedMemory",
        Fate.DIFFERS,
    ),
    "another kernel": (
        performance(realTimeKernel={"enabled": True}),
        "spec.realTimeKernel.enabled",
        Fate.NOT_OURS,
    ),
    "a parameter that a profile refuses": (
        performance(additionalKernelArgs=["rd.shell=0"]),
        "spec.additionalKernelArgs",
        Fate.NOT_EXPRESSED,
    ),
    "amounts of CPUs": (kubelet(kubeReserved={"cpu": "1500m"}), "kubeReserved.cpu", Fate.NOT_EXPRESSED),
    "thresholds that are dropped": (
        kubelet(evictionHard={"memory.available": "1Gi"}),
        "evictionHard",
        Fate.DIFFERS,
    ),
    "pages in reservedMemory": (
        kubelet(reservedMemory=[{"numaNode": 0, "limits": {"memory": "100Mi", "hugepages-1Gi": "1Gi"}}]),
        "reservedMemory",
        Fate.NOT_EXPRESSED,
    ),
    "a limit that is only raised": (
        "[sysctl]\nnet.core.rmem_max=>1\n",
        "[sysctl] net.core.rmem_max",
        Fate.DIFFERS,
    ),
    "a value of the host": (
        "[sysctl]\nvm.swappiness=${f:exec:x}\n",
        "[sysctl] vm.swappiness",
        Fate.NOT_EXPRESSED,
    ),
    "a parameter whose risk is for the admin to say": (
        "[bootloader]\ncmdline=net.ifnames=0\n",
        "[bootloader] cmdline",
        Fate.NOT_EXPRESSED,
    ),
    "a sysctl whose risk is for the admin to say": (
        "[sysctl]\nnet.ipv4.ip_forward=0\n",
        "[sysctl]",
        Fate.NOT_EXPRESSED,
    ),
    "an included profile": ("[main]\ninclude=powersave\n", "[main] include", Fate.NOT_EXPRESSED),
    "a section for some machines": (
        "[vm.arm]\ntype=vm\nuname_regex=aarch64\ndirty_ratio=9\n[vm]\n",
        "[vm.arm] uname_regex",
        Fate.NOT_EXPRESSED,
    ),
    "a template": (
        "kubelet_cpu_manager_policy: '{{ policy }}'\n",
        "kubelet_cpu_manager_policy",
        Fate.NOT_EXPRESSED,
    ),
    "an encrypted value": (
        "kube_reserved: true\nkube_memory_reserved: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n",
        "kube_memory_reserved",
        Fate.NOT_EXPRESSED,
    ),
    "governors that TuneD would take in turn": (
        "[cpu]\ngovernor=schedutil|ondemand|powersave\n",
        "[cpu] governor",
        Fate.DIFFERS,
    ),
    "flags that win": (
        "kubelet_custom_flags: [--cpu-manager-policy=static]\n",
        "kubelet_custom_flags",
        Fate.DIFFERS,
    ),
    "version 1 of control groups": (
        "linuxConfig: {cgroupMode: CGROUP_MODE_V1}\n",
        "linuxConfig.cgroupMode",
        Fate.DIFFERS,
    ),
}


@pytest.mark.parametrize(("text", "field", "fate"), NOTED.values(), ids=list(NOTED))
def test_what_a_profile_cannot_say_is_noted(text, field, fate):
    assert (field, fate) in {(note.field, note.fate) for note in convert(text, "file").notes}


def test_what_is_as_usual_is_not_noted():
    usual = {
        "realTimeKernel": {"enabled": False},
        "kernelPageSize": "4k",
        "globallyDisableIrqLoadBalancing": False,
    }
    assert convert(performance(**usual), "file").notes == convert(performance(), "file").notes


def test_parts_that_the_kubelet_does_not_read_refuse_nothing():
    text = kubelet(memoryManagerPolicy="None", kubeReserved={"memory": "1Gi"}, reservedMemory=PARTS)
    assert convert(text, "file").profile["kubelet"] == {"memory_manager_policy": "None"}


# What is refused


REFUSED = {
    "pools of SR-IOV": ('{"resourceList": []}', "the SR-IOV network device plugin"),
    "pools of RDMA": ('{"configList": []}', "numaforge rdma check FILE"),
    "MIME without a NodeConfig": (
        'Content-Type: multipart/mixed; boundary="B"\n\n--B\nContent-Type: text/x-shellscript\n\nls\n--B--\n',
        "0 parts of application/node.eks.aws",
    ),
    "sets that overlap": (
        performance(cpu={"reserved": "0-3", "isolated": "3-9"}),
        "spec.cpu.isolated: 3 in spec.cpu.reserved",
    ),
    "no isolated CPUs": (performance(cpu={"reserved": "0-3"}), "spec.cpu.isolated: must be given"),
    "a cpulist that is none": (
        performance(cpu={"reserved": "a", "isolated": "1"}),
        "spec.cpu.reserved: 'a' is not a cpulist",
    ),
    "an unknown field": (
        performance(numa={"topologyPolicies": "none"}),
        "spec.numa.topologyPolicies: unknown field; did you mean topologyPolicy?",
    ),
    "an unknown policy": (
        performance(numa={"topologyPolicy": "Restricted"}),
        "spec.numa.topologyPolicy: 'Restricted' is not accepted",
    ),
    "hints that exclude each other": (
        performance(workloadHints={"highPowerConsumption": True, "perPodPowerManagement": True}),
        "spec.workloadHints: highPowerConsumption and perPodPowerManagement exclude each other",
    ),
    "mixed CPUs without shared ones": (performance(workloadHints={"mixedCpus": True}), "names no CPUs"),
    "the same pages twice": (
        performance(hugepages={"defaultHugepagesSize": "1G", "pages": [{"size": "1G", "count": 1}] * 2}),
        "spec.hugepages.pages[1]: the size and the NUMA node of an entry before it",
    ),
    "pages without a default": (
        performance(hugepages={"pages": [{"size": "1G", "count": 1}]}),
        "spec.hugepages.defaultHugepagesSize: must be given",
    ),
    "a snippet that is not JSON": (
        performance().replace(
            "name: performance", "annotations: {kubeletconfig.experimental: '{'}\n  name: performance"
        ),
        "metadata.annotations.kubeletconfig.experimental: not JSON",
    ),
    "a snippet with an unknown field": (
        performance().replace(
            "name: performance",
            "annotations: {kubeletconfig.experimental: '{\"cpuManger\": 1}'}\n  name: performance",
        ),
        "metadata.annotations.kubeletconfig.experimental: cpuManger: unknown field",
    ),
    "another version": (performance().replace("/v2", "/v3"), "apiVersion: 'performance.openshift.io/v3'"),
    "a quantity that is none": (kubelet(kubeReserved={"memory": "8GB"}), "kubeReserved.memory: '8GB'"),
    "a number for a text": (kubelet(cpuManagerPolicy=1), "cpuManagerPolicy: 1 is not a text"),
    "a mapping for a list": (kubelet(reservedMemory={"a": 1}), "reservedMemory: not a list"),
    "an option of TuneD": (
        "[cpu]\ngovernour=performance\n",
        "[cpu] governour: unknown field; did you mean governor?",
    ),
    "a plugin of TuneD": ("[cpu]\ngovernor=performance\n[cpus]\na=1\n", "[cpus]: unknown field"),
    "an option of the boot loader": ("[bootloader]\ncmdlin=audit=0\n", "[bootloader] cmdlin: unknown option"),
    "an option twice": ("[cpu]\ngovernor=performance\ngovernor=powersave\n", "already exists"),
    "a governor that is none": ("[cpu]\ngovernor=fast\n", "[cpu] governor: 'fast' is not accepted"),
    "an unknown variable of the kubelet": (
        "kubelet_cpu_manager_policies: static\nkube_reserved: true\n",
        "did you mean kubelet_cpu_manager_policy",
    ),
    "pages that are no number": (
        "linuxConfig: {hugepageConfig: {hugepage_size1g: all}}\n",
        "'all' is not a number of pages",
    ),
    "a field of GKE": ("kubeletConfig: {cpuManager: static}\n", "kubeletConfig.cpuManager: unknown field"),
    "several configs": (text_of("mig-parted.yaml"), "say --name, one of whole, seven"),
    "several node groups": (text_of("eksctl.yaml"), "say --name, one of system, h100, a100"),
    "a profile of MIG": (
        "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {9g.1gb: 1.5}}]}\n",
        "mig-devices",
    ),
    "two documents": ("a: 1\n---\nb: 2\n", "holds 2 documents"),
    "nothing": ("", "is empty"),
    "comments": ("# nothing\n", "is empty"),
    "a list": ("- a\n", "is not a mapping"),
    "no YAML": ("a: [\n", "not valid YAML"),
    "a key twice": ("kubelet_max_pods: 1\nkubelet_max_pods: 2\n", "written twice"),
    "YAML with a section's name": ("main: 1\ncpu: [a]\n", "it has the keys main, cpu"),
    "another kind": ("apiVersion: v1\nkind: Pod\n", "kind 'Pod'"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=list(REFUSED))
def test_a_file_is_refused_with_its_field(text, said):
    with pytest.raises(NumaforgeError) as refused:
        convert(text, "file")
    assert said in str(refused.value)
    assert str(refused.value).startswith("file")


def test_a_file_of_another_kind_is_refused():
    with pytest.raises(NumaforgeError, match="is not a TuneD profile or an OpenShift Tuned"):
        convert(performance(), "file", "tuned")


def test_a_name_is_for_files_that_hold_several():
    with pytest.raises(NumaforgeError, match="--name does not apply"):
        convert(performance(), "file", name="performance")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 300)
    | st.sampled_from(["", "0-3", "1Gi", "static", "a\nb", "${x}"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["memory", "name", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def changed(document: Any, value: Any, choose: Any) -> Any:
    """Return a document with one value somewhere in it replaced."""
    if isinstance(document, dict) and document and choose(st.booleans()):
        key = choose(st.sampled_from(sorted(document, key=str)))
        return {**document, key: changed(document[key], value, choose)}
    if isinstance(document, list) and document and choose(st.booleans()):
        return [changed(document[0], value, choose), *document[1:]]
    return value


@given(data=st.data(), sample=st.sampled_from(sorted(name for name in KIND_OF if name.endswith(".yaml"))))
@settings(max_examples=150, deadline=None)
def test_whatever_a_file_says_it_is_converted_or_refused(data, sample):
    document = yaml.safe_load(text_of(sample))
    text = yaml.safe_dump(changed(document, data.draw(VALUES), data.draw))
    try:
        made = convert(text, sample, KIND_OF[sample], CHOSEN.get(sample))
    except NumaforgeError:
        return
    assert yaml.safe_load(as_yaml(made, sample)) in (made.profile, None)
    assert load_profile({"name": "x", **made.profile})


# The tables


def properties(schema: dict[str, Any], path: str = "spec") -> list[str]:
    """Return the path of every field of a CustomResourceDefinition that holds no others."""
    fields = schema.get("properties") or schema.get("items", {}).get("properties")
    if not fields:
        return [path]
    each = f"{path}[]" if "items" in schema else path
    return [leaf for name, below in fields.items() for leaf in properties(below, f"{each}.{name}")]


CRDS = REPOSITORY.parent / "shared" / "crds"


@pytest.mark.parametrize("name", ["performanceprofiles", "kubeletconfigs", "tuneds"])
def test_every_field_of_a_custom_resource_has_a_row(name):
    file = CRDS / f"openshift-{name}.yaml"
    if not file.is_file():
        pytest.skip(f"{file} is not here")
    definition = yaml.safe_load(file.read_text())
    kind = definition["spec"]["names"]["kind"]
    [rows] = [form.rows for form in FORMS if form.has({"kind": kind})]
    known = {row.field for row in rows}
    for version in definition["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for field in properties(spec):
            ends = [end for end in range(len(field) + 1) if field[end : end + 1] in ("", ".", "[")]
            above = {field[:end] for end in ends}
            below = [one for one in known if one.startswith(f"{field}.")]
            assert known & above or below, field


def test_every_field_of_a_kubelet_has_a_row():
    fields = {name.removeprefix(f"{ROOT_TYPE}.") for name in FIELDS if name.startswith(f"{ROOT_TYPE}.")}
    assert fields == {row.path()[0] for row in KUBELET_ROWS}


def keys_of_a_profile() -> set[str]:
    schema = json_schema("profile")

    def below(part: Any, path: str) -> set[str]:
        found = {path}
        options = (part, *part.get("anyOf", ()))
        for option in [each for one in options for each in (one, one.get("items", {}))]:
            held = schema["$defs"][option["$ref"].rpartition("/")[2]] if "$ref" in option else option
            for name, value in held.get("properties", {}).items():
                found |= below(value, f"{path}.{name}".removeprefix("."))
        return found

    return below(schema, "")


def test_every_key_of_a_row_is_one_of_a_profile():
    keys = keys_of_a_profile()
    said = {row.key.replace("[]", "") for row in all_rows() if row.key}
    unknown = {
        key for key in said if key not in keys and not key.startswith(("tuning.sysctls.", "mig.mig_parted."))
    }
    assert unknown == set()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.called)
def test_a_field_has_one_row(form):
    fields = [row.field for row in form.rows]
    assert len(fields) == len(set(fields))


def test_a_row_that_is_not_taken_says_why():
    assert [row.field for row in all_rows() if row.fate not in (Fate.BECOMES,) and not row.why] == []


def test_null_is_as_good_as_left_out():
    assert read({"cpuManagerPolicy": None}, KUBELET_ROWS).fields == ()


# The command


def test_standard_input_is_read(monkeypatch, capsys):
    with (SAMPLES / "gke.yaml").open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert run(["convert", "-"]) == 0
    assert capsys.readouterr().out.startswith(
        "# Converted by numaforge from a node system configuration of GKE: standard input"
    )


def test_programs_get_profile_and_notes(capsys):
    assert run(["convert", "gke", str(SAMPLES / "gke.yaml"), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["profile"]["kubelet"]["topology_manager_policy"] == "single-numa-node"
    assert document["origins"]["kubelet.topology_manager_policy"] == "kubeletConfig.topologyManager.policy"
    assert {"field", "fate", "key", "text"} == set(document["notes"][0])


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_a_file_is_written(tmp_path, capsys, output):
    file = tmp_path / "out"
    assert run(["convert", str(SAMPLES / "gke.yaml"), "--to", str(file), "-o", output]) == 0
    assert capsys.readouterr().out == ""
    assert yaml.safe_load(file.read_text())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"\x00\x01", "line 1: is not a text: it holds U+0000", id="binary"),
        pytest.param(b"\xff\xfe", "is not UTF-8 text", id="no UTF-8"),
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"kind: Pod\n", "kind 'Pod'", id="another kind"),
    ],
)
def test_bad_input_is_one_message(tmp_path, capsys, content, said):
    file = tmp_path / "file"
    file.write_bytes(content)
    assert run(["convert", str(file)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert "fault" not in captured.err


@pytest.mark.parametrize("words", [["helm", "file"], ["gke", "a", "b"], ["gke", str(Path("/nonexistent"))]])
def test_bad_words_are_refused(capsys, words):
    assert run(["convert", *words]) == 2
    assert "Traceback" not in capsys.readouterr().err
