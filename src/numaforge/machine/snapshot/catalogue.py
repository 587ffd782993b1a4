"""What a snapshot collects: the one list that the script on a host and the reader of a folder both follow.

Left out on purpose, because they identify a machine or give access to it: MAC addresses, GUIDs and GIDs,
serial numbers (`topology/ppin` is one), kubeconfig files, keys, and the environment of processes. Of those on
GPUs the name and the control group are taken, not the command line.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from posixpath import basename, dirname
from typing import Any, NamedTuple

from numaforge.lib.kubelet_paths import KUBECONFIG, ROOT_DIR
from numaforge.lib.unfinished import TRANSACTIONS
from numaforge.machine.knobs import KNOB_AT

CPU = "/sys/devices/system/cpu"
NUMA = "/sys/devices/system/node"


class Attributes(NamedTuple):
    """Small files: `names`, each the first of `new|old` that exists, below the folders of `folders`."""

    folders: str
    names: str


SNAP_DATA = "/var/snap/microk8s/current"
SNAP_COMMON = "/var/snap/microk8s/common"
"""What MicroK8s' files call ${SNAP_DATA} and ${SNAP_COMMON}: the latter outlives every update of the snap."""


def expand_snap(text: str) -> str:
    """Return a file's text with the two variables of a snap as kubelite expands them."""
    return text.replace("${SNAP_DATA}", SNAP_DATA).replace("${SNAP_COMMON}", SNAP_COMMON)


_TABLES = json.loads(expand_snap(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))
_KNOBS = groupby(sorted(path for path in KNOB_AT if path.startswith("/sys/")), dirname)
ATTRIBUTES = (
    *(Attributes(folders, names) for folders, names in _TABLES["attributes"].items()),
    *(Attributes(folder, " ".join(map(basename, paths))) for folder, paths in _KNOBS),
)
"""Those of catalogue.json, and the knobs.

Frequencies themselves stay out: reading scaling_cur_freq interrupts the CPU that it asks. GPUs are below
their drivers' own folders, so that other functions are not even looked at, and MTUs below devices: netdevs of
containers are many. netns_mode is Y for shared, N for exclusive, as `rdma system` has it, from Linux 5.2 on.
Of the machine's DMI its maker's name and its firmware are taken, no serial numbers and asset tags.
hwloc-nofile-info exists only in trees that hwloc-gather-topology saved; it says the architecture.
"""

PLANNED = (
    Attributes(f"{CPU}/cpu[0-9]*/cpuidle/state[0-9]*", "disable"),
    Attributes("/sys/fs/cgroup/*.slice", "cpuset.cpus.effective"),
    Attributes("/sys/fs/cgroup/*.scope", "cpuset.cpus.effective"),
)
"""Files that a plan sets and planning needs not: taken where one is saved."""

INTERRUPTS = "/etc/numaforge/interrupts.conf"
"""What an earlier plan has answer which device: the masks and interrupts that it names are taken."""
MANAGED_INTERRUPTS = "/run/numaforge/interrupts/managed"
"""Interrupts that the kernel places alone, by the path of their CPUs."""
_TUNED = "kernel vm fs fs/inotify net/core net/ipv4 net/ipv4/neigh/default net/netfilter net/bridge"
SETTINGS = tuple(f"/proc/sys/{folder}/*" for folder in _TUNED.split())
"""Small files by exact path: the sysctls that a profile may tune."""

UNWANTED_SETTINGS = ("*key*", "*secret*", "*stat_refresh", "*ns_last_pid", "*drop_caches", "*compact_memory")
"""Sysctls that hold a secret, have side effects when read, or carry no information."""

UNFINISHED = f"{TRANSACTIONS}/current"
"""A link to the change of the host that has not ended: its step, and why it goes back."""
UNFINISHED_STATE, UNFINISHED_WHY = f"{UNFINISHED}/state", f"{UNFINISHED}/why"

LINKS = (UNFINISHED, *_TABLES["links"])
"""Symbolic links whose targets tell where a device is, and which file or unit is meant.

libnvidia-ml's has the version in its name; a masked unit is a link to /dev/null.
"""

VPD = "/sys/class/infiniband/*/device/vpd"
"""Vital product data of RDMA devices hold serial numbers: only whether the keyword is in them is taken."""
SWITCH_MANAGEMENT = "SW_MNG"
"""The keyword of the functions by which fabric manager reaches the NVSwitches of HGX B200 and later."""
PCI_FUNCTIONS = re.compile(r"0x(0[23]|12)....")
"""Classes of GPUs, accelerators and network functions: their configuration space is taken, and that of the
bridges above them, without the serial number; where there is an RDMA device."""

DIRECT_NIC = "2100"
"""The function of a ConnectX-8 that writes into a GPU's memory, by PCI device id, whatever its class is."""
SWITCHES = "197[9bc]"
"""The ports of switches within ConnectX and BlueField cards, by PCI device id: also those that no GPU and no
NIC is below, as where a drive is. A pattern of grep and of Python."""

KERNEL_TYPES = "/sys/kernel/btf/vmlinux"
"""The kernel's own types and functions: only whether it knows config_acs is taken."""


class Distribution(NamedTuple):
    """How to recognize a distribution with a kubelet of its own, running or stopped.

    `config_dir` is the --config-dir of its kubelet from Kubernetes 1.32 on: its own, or the one that we add
    to `arguments`, the file of its kubelet's arguments. `version` is a file with its version.
    """

    logins: Sequence[str]
    units: Sequence[str]
    config_dir: str
    arguments: str | None = None
    version: str | None = None


_ROWS: Mapping[str, Mapping[str, Any]] = _TABLES["distributions"]
DISTRIBUTIONS = {name: Distribution(**row) for name, row in _ROWS.items()}
"""Distributions whose kubelet is no kubelet.service: it runs inside their process or as its child."""

DISTRIBUTIONS_DIRS = tuple(distribution.config_dir for distribution in DISTRIBUTIONS.values())

ARGUMENTS_FILES = tuple(one.arguments for one in DISTRIBUTIONS.values() if one.arguments)


KUBELET_PARENTS = ("rke2-server.service", "rke2-agent.service")
"""Units whose kubelet is a process of its own in their control group."""

KUBELET_HOSTS = ("k3s.service", "k3s-agent.service")
"""Units whose main process is the kubelet, too: its program has the version; its arguments may be secret."""

IMEX_CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
"""A device through which containers share GPU memory with other hosts of a rack."""
LOGINS = (KUBECONFIG,)
"""The kubeconfig that kubeadm leaves when a node has joined; only its presence is captured."""

CLAIM_DRIVERS = f"{ROOT_DIR}/plugins_registry"
"""Where drivers of dynamic resource allocation have a socket each while they run; other plugins, too."""

RDMA_PLUGIN_LOGS = "/var/log/pods/*/*rdma-shared-dp*"
"""The log of the shared RDMA device plugin, by the container's name in its manifests, NVIDIA's too."""
RDMA_CNI = "/opt/cni/bin/rdma"
"""The CNI plugin that moves an RDMA device into a pod's network namespace."""
SWAP_SERVICES = ("systemd-zram-setup@", "zramswap", "zram-config", "dphys-swapfile")
"""Services that make swap by themselves: zram-generator's, zram-tools', Ubuntu's, and dphys-swapfile."""

_WITH_CLAIMS = ("dra.cpu", "dra.net", "gpu.nvidia.com", "gpu.amd.com")
PRESENT = (
    *_TABLES["present"],
    IMEX_CHANNEL,
    CLAIM_DRIVERS,
    RDMA_PLUGIN_LOGS,
    RDMA_CNI,
    *(f"{CLAIM_DRIVERS}/{name}*-reg.sock" for name in _WITH_CLAIMS),
    *(f"/usr/lib/systemd/system/{name}.service" for name in SWAP_SERVICES),
    *(path for one in DISTRIBUTIONS.values() for path in (*one.logins, *one.units)),
    *LOGINS,
)
"""Files whose presence is enough: only the names are captured.

By the devices amdgpu_xcp* AMD's device plugin counts partitions. /dev/null shows that devices were looked at,
/dev/char/1:3, the same, that udev has made these links.
"""

DAEMONS = "nv-fabricmanage nvlsm nvidia-imex nvidia-persiste"
"""NVIDIA's daemons, by what the kernel keeps of a process's name: its first 15 characters."""
IMEX_NODES = "/etc/nvidia-imex/nodes_config.cfg"
"""Addresses of the nodes that share memory over NVLink: only their count and a checksum are captured."""
IMEX_CONFIG = "/etc/nvidia-imex/config.cfg"
"""Settings of the host's IMEX daemon: only whether it takes commands is captured."""
HOST_DAEMONS = "containerd crio kubelet chronyd systemd-timesyn ntpd tuned openshift-tuned power-profiles-"
"""Daemons whose control group and limits are taken, by the first 15 characters of their names."""

CONTAINERD_KEYS = (
    r"^[[:space:]]*((version|imports|SystemdCgroup|default_runtime_name|runtime_type|enable_cdi|cdi_spec_dirs"
    r"|disable|sandbox|sandbox_image)[[:space:]]*=|\[)"
)
"""Lines of `containerd config dump` that are taken: headers, without those of registries, and no password."""

NVIDIA_PACKAGES = ("nvidia-fabric*", "nvidia-imex*", "nvlsm*")
"""Packages that must match NVIDIA's driver."""

HELD_PACKAGES: dict[str, list[str]] = _TABLES["held_packages"]
"""Packages of which an upgrade by itself hurts a GPU node; what two kinds name belongs to the later one."""

SYSTEM_FOLDERS = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
"""Where systemd, modprobe and sysctl look for settings; an earlier folder wins."""

MODPROBE = tuple(f"{folder}/modprobe.d/*.conf" for folder in SYSTEM_FOLDERS)
"""What modprobe is told, taken where NVIDIA's driver or nouveau is loaded."""

PLAN = "/etc/numaforge/plan.json"
"""What an earlier run decided for the host."""
NCCL_CONF = "/etc/nccl.conf"
"""What NCCL is told on this host."""
RCCL_CONF = "/etc/rccl.conf"
"""The same for RCCL, AMD's NCCL."""
ROUTES = "/proc/net/route"
"""IPv4 routes: which interface has the default route, and which networks interfaces are in."""
TUNED_PROFILE = "/etc/tuned/active_profile"
"""The profiles that TuneD carries out; what they include is taken with them."""
TUNED_FOLDERS = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
"""Where TuneD looks for a profile; an earlier folder wins. Versions before 2.23 have no `profiles`."""

KERNEL_VALUES = "/etc/numaforge/kernel-values"
"""What the kernel had before earlier runs changed it."""

_STATE_OF_A_CHANGE = (PLAN, MANAGED_INTERRUPTS, UNFINISHED_STATE, UNFINISHED_WHY, KERNEL_VALUES)
TEXTS = (
    *_TABLES["texts"],
    *_STATE_OF_A_CHANGE,
    *(NCCL_CONF, RCCL_CONF, ROUTES, TUNED_PROFILE),
    *(f"{folder}/sysctl.d/*.conf" for folder in SYSTEM_FOLDERS[:-1]),
    *(distribution.version for distribution in DISTRIBUTIONS.values() if distribution.version),
)
"""Files that are taken whole."""

CPUINFO = "/proc/cpuinfo"
"""Taken whole where sysfs holds no CPU topology, else its first CPU only (the model's name)."""
UNIT_FOLDERS = tuple(f"{folder}/systemd/system" for folder in SYSTEM_FOLDERS)
UNIT = "kubelet.service"
CONTAINERD_UNITS = ("containerd.service", "snap.microk8s.daemon-containerd.service")
"""Units whose main process is containerd: it is asked for its version and settings."""

UNITS = (
    UNIT,
    *CONTAINERD_UNITS,
    "crio.service",
    "nvidia-fabricmanager.service",  # with nvlsm beside its main process
    *dict.fromkeys(basename(path) for distribution in DISTRIBUTIONS.values() for path in distribution.units),
)
"""Units of daemons alone. Systemd is asked for these, and for those that control groups of processes name."""

PROGRAM_FOLDERS = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/bin", "/opt/bin")
"""Where a kubelet is looked for whose unit names no program, whatever the PATH of a login is."""
ROOT_DIRS = (ROOT_DIR, f"{SNAP_COMMON}/var/lib/kubelet")
"""The roots that kubelets have by default: k3s and RKE2 leave the kubelet its own, MicroK8s is confined."""

STATE_FILES = ("cpu_manager_state", "memory_manager_state")

DEVICE_CHECKPOINT = "device-plugins/kubelet_internal_checkpoint"
"""Which container has which device, below the kubelet's root; taken without what device plugins answered."""
POD_RESOURCES = "pod-resources/kubelet.sock"
"""Where the kubelet says which container has which device, below its root; only those are taken."""
POD_LOGS = "/var/log/pods"
"""Folders NAMESPACE_NAME_UID: only the names of pods with devices are taken, and of those that use a GPU."""
