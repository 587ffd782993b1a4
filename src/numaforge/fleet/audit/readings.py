"""Readers of the facts that machines of one make share: texts to compare, none where unknown."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.gpu_models import MODELS
from numaforge.machine.topology.model import Gpu, NodeTopology, PciFunction, RdmaDevice
from numaforge.machine.topology.pcie import lanes

Spread = Mapping[str, tuple[str, ...]]
"""What devices have: the places of each value, `{"Gen5 x16": ("0000:1b:00.0", ...)}`."""

Values = Mapping[str, str | Spread]
"""A fact by its subject: "" for the machine as a whole, else a setting or a kind of device."""

Read = Callable[[NodeTopology], Values]

WHOLE = ""
_GIB = 2**30

# Kernel parameters that name a host's own disks, addresses and boot entry.
_OF_ONE_HOST = re.compile(
    r"(root|resume|resume_offset|BOOT_IMAGE|initrd|ip|ifname|nfsroot|bootdev|BOOTIF|hostname|ostree|"
    r"systemd\.(machine_id|hostname)|rd\.[\w.]+|netroot|iscsi_\w+|cryptdevice|luks[\w.]*)(=.*)?"
)
# Sysctls that count events, that name the host, or that other facts cover.
_OF_ONE_KERNEL = re.compile(
    r"kernel\.(hostname|domainname|osrelease|version|tainted|perf_event_max_sample_rate|bootloader_\w+|random\..*)|"
    r"fs\.(aio-nr|dentry-state|file-nr|inode-nr|inode-state|dentry-negative)|net\.netfilter\.nf_conntrack_count|"
    r"net\.ipv4\.tcp_(available|allowed)_congestion_control|net\.ipv4\.tcp_available_ulp|"
    r"net\.core\.(flow_limit_cpu_bitmap|rps_.*|netdev_rss_key)"
)
_KINDS = {"0604": "bridges", "03": "GPUs", "12": "GPUs", "02": "NICs"}


def whole(value: Callable[[NodeTopology], object]) -> Read:
    """Return a reader of one value of the machine as a whole."""

    def read(machine: NodeTopology) -> Values:
        reading = value(machine)
        return {} if reading is None else {WHOLE: str(reading)}

    return read


def of_gpus(value: Callable[[Gpu], object]) -> Read:
    """Return a reader of a value of each GPU that answers."""
    return lambda machine: _spread(
        (gpu.pci_address, value(gpu)) for gpu in machine.gpus if not gpu.unanswered
    )


def of_rdma_devices(value: Callable[[RdmaDevice], object]) -> Read:
    """Return a reader of a value of each RDMA device that carries traffic, by vendor and device."""
    return lambda machine: _by_kind(
        (f"{device.vendor}:{device.device}", device.name, value(device)) for device in carrying(machine)
    )


def of_functions(value: Callable[[PciFunction], object], *kinds: str) -> Read:
    """Return a reader of a value of each function between GPUs and NICs: "GPUs", "NICs", "bridges"."""

    def read(machine: NodeTopology) -> Values:
        return _by_kind(
            (kind, function.pci_address, value(function))
            for function in machine.pci_functions
            if (kind := _KINDS.get(function.pci_class[:4]) or _KINDS.get(function.pci_class[:2])) in kinds
        )

    return read


def carrying(machine: NodeTopology) -> Iterator[RdmaDevice]:
    """Yield the RDMA devices that carry traffic: no virtual functions, no software, no NVSwitches."""
    for device in machine.rdma_devices:
        if device.pci_address and not device.management and device.physical_function is None:
            yield device


def _spread(values: Iterable[tuple[str, object]]) -> Values:
    """Return the places of each value; nothing where a value is unknown."""
    places: dict[str, list[str]] = {}
    for name, value in values:
        if value is None:
            return {}
        places.setdefault(str(value), []).append(name)
    return {WHOLE: {value: tuple(names) for value, names in places.items()}} if places else {}


def _by_kind(values: Iterable[tuple[str | None, str, object]]) -> Values:
    kinds = grouped((kind or "other", (name, value)) for kind, name, value in values)
    return {kind: spread[WHOLE] for kind, members in kinds.items() if (spread := _spread(members))}


# ---- the machine ----


def operating_system(machine: NodeTopology) -> str | None:
    """Return the release as the host calls it."""
    release = machine.os_release
    return (
        release.get("PRETTY_NAME") or " ".join(filter(None, map(release.get, ("ID", "VERSION_ID")))) or None
    )


def cmdline(machine: NodeTopology) -> str | None:
    """Return the kernel's command line without what names the host's own disks and addresses."""
    if machine.kernel_cmdline is None:
        return None
    return " ".join(word for word in machine.kernel_cmdline.split() if not _OF_ONE_HOST.fullmatch(word))


def cpus(machine: NodeTopology) -> str:
    """Return the number of CPUs: `224 online, 2 per core, 4 offline`."""
    threads = sorted({len(core.cpus) for core in machine.cores})
    parts = [f"{len(machine.online)} online"]
    parts += [f"{' or '.join(map(str, threads))} per core"] if threads else []
    return ", ".join([*parts, *([f"{len(machine.offline)} offline"] if machine.offline else [])])


def numa_nodes(machine: NodeTopology) -> str | None:
    """Return how many CPUs each NUMA node has."""
    return _run_length(counted(len(node.cpus), "CPU") for node in machine.numa_nodes)


def memory(machine: NodeTopology) -> str | None:
    """Return the memory of each NUMA node in GiB: a list with some tolerance."""
    sizes = [node.memory_bytes for node in machine.numa_nodes] or [machine.memory_bytes]
    gib = [f"{size / _GIB:.1f}" for size in sizes if size is not None]
    return f"{', '.join(gib)} GiB" if len(gib) == len(sizes) else None


def hugepages(machine: NodeTopology) -> Values:
    """Return the pages of each NUMA node, by size."""
    sizes = sorted({size for node in machine.numa_nodes for size in node.hugepages})
    pools = {size: [node.hugepages.get(size) for node in machine.numa_nodes] for size in sizes}
    return {
        size: _run_length(str(pool.total if pool else 0) for pool in pool_group) or ""
        for size, pool_group in pools.items()
    }


def _run_length(values: Iterable[str]) -> str | None:
    """Return values in order, equal neighbours together: `2 x 56 CPUs, 1 x 0 CPUs`; None without values."""
    runs: list[tuple[str, int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1] + 1)
        else:
            runs.append((value, 1))
    return ", ".join(f"{count} x {value}" for value, count in runs) or None


def frequency_scaling(machine: NodeTopology) -> Values:
    """Return the driver, and the active governors and energy preferences."""
    scaling = machine.cpufreq
    if scaling is None:
        return {}
    texts = {
        "driver": scaling.driver,
        "governors": ", ".join(sorted(set(scaling.governors.values()))),
        "energy preferences": ", ".join(sorted(set(scaling.energy_preferences.values()))),
    }
    return {name: text for name, text in texts.items() if text}


def sleep_states(machine: NodeTopology) -> str | None:
    """Return the names of the sleep states that the kernel manages."""
    if machine.idle_states is None:
        return None
    return ", ".join(dict.fromkeys(str(state.name) for state in machine.idle_states)) or "none"


def sysctls(machine: NodeTopology) -> Values:
    """Return the captured sysctls without those that name the host."""
    return {name: value for name, value in machine.sysctls.items() if not _OF_ONE_KERNEL.fullmatch(name)}


# ---- GPUs ----


def gpus(machine: NodeTopology) -> Values:
    """Return the models by PCI ids, which are known even where a GPU does not answer."""
    models = ((gpu.pci_address, MODELS.get(ids := f"{gpu.vendor}:{gpu.device}", ids)) for gpu in machine.gpus)
    return _spread(models) or {WHOLE: {"none": ()}}


def link_of_gpu(gpu: Gpu) -> str | None:
    """Return what GPU and slot can both reach, and the active lanes: an idle GPU lowers its speed."""
    best, current = gpu.driver_link or gpu.link, gpu.link or gpu.driver_link
    return None if best is None or current is None else lanes(best.max_speed, current.width) or None


def ecc(gpu: Gpu) -> str | None:
    """Return whether memory errors are corrected."""
    return None if gpu.ecc is None or gpu.ecc.enabled is None else "on" if gpu.ecc.enabled else "off"


def mig(gpu: Gpu) -> str | None:
    """Return the MIG mode, and where the instances lie."""
    cut = sorted((instance.start, instance.size) for instance in gpu.gpu_instances or ())
    places = " ".join(f"{start}:{size}" for start, size in cut)
    return gpu.mig_mode and f"{gpu.mig_mode}{f' with {places}' if places else ''}"


def gpu_memory(gpu: Gpu) -> str | None:
    """Return a GPU's memory in GiB."""
    return None if gpu.memory_bytes is None else f"{gpu.memory_bytes / _GIB:.0f} GiB"


def bar1(gpu: Gpu) -> str | None:
    """Return the size of the window through which peers access the memory."""
    return None if gpu.bar1_bytes is None else f"{gpu.bar1_bytes // 2**20} MiB"


def persistence(gpu: Gpu) -> str | None:
    """Return whether the driver keeps an unused GPU initialized."""
    return None if gpu.persistence is None else "on" if gpu.persistence else "off"


def nvidia_driver(machine: NodeTopology) -> Values:
    """Return the versions of the running driver and of the one on disk, and the kind of running module."""
    install, nvidia = machine.nvidia_install, machine.nvidia
    is_open = install.open_module if install else None
    texts = {
        "version": (install.loaded if install else None) or (nvidia.version if nvidia else None),
        "module": None if is_open is None else "open" if is_open else "proprietary",
        "on disk": install.on_disk if install else None,
    }
    return {name: text for name, text in texts.items() if text}


def nvidia_packages(machine: NodeTopology) -> Values:
    """Return the versions of fabric manager, nvlsm and IMEX; a package's name without the driver's branch."""
    packages = machine.nvidia_install.packages if machine.nvidia_install else None
    return {re.sub(r"-\d+$", "", name): version for name, version in (packages or {}).items()}


# ---- NICs, PCIe ----


def rdma_devices(machine: NodeTopology) -> Values:
    """Return the RDMA devices that carry traffic, by vendor and device."""
    devices = _spread((device.name, f"{device.vendor}:{device.device}") for device in carrying(machine))
    return devices or {WHOLE: {"none": ()}}


def ports(device: RdmaDevice) -> str | None:
    """Return the attributes of a device's ports, in the kernel's words."""
    parts = [
        " ".join(filter(None, (port.link_layer, port.state, (port.rate or "").split(" (")[0])))
        for port in device.ports
    ]
    return " + ".join(parts) or None


def access_control(function: PciFunction) -> str | None:
    """Return the enabled bits of access control; "none" for a bridge without it."""
    control = function.access_control
    return None if control is None else "none" if control.control is None else f"{control.control:#04x}"


def link_of_function(function: PciFunction) -> str | None:
    """Return a link's current speed and width."""
    link = function.link
    return None if link is None else lanes(link.speed, link.width) or None


def address_translation(function: PciFunction) -> str | None:
    """Return whether a function has ATS."""
    translation = function.address_translation
    return None if translation is None else "with" if translation else "without"


# ---- software ----


def containerd(machine: NodeTopology) -> str | None:
    """Return containerd's version."""
    runtime = machine.userland.containerd if machine.userland else None
    return runtime.version if runtime else None


def tuned(machine: NodeTopology) -> str | None:
    """Return TuneD's profiles."""
    return (" ".join(machine.userland.tuned_profiles) or "none") if machine.userland else None


def profile(machine: NodeTopology) -> str | None:
    """Return the profile of the plan saved on the host."""
    if not machine.previous_plan:
        return "none"
    try:
        return str(json.loads(machine.previous_plan)["profile"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


kernel = whole(lambda machine: machine.kernel)
cgroup = whole(lambda machine: machine.cgroup_version)
swap = whole(lambda machine: None if machine.swap_bytes is None else "on" if machine.swap_bytes else "off")
kubelet = whole(lambda machine: machine.kubelet.version if machine.kubelet else None)
nics = whole(lambda machine: len(machine.nics))
nvmes = whole(lambda machine: len(machine.nvmes))
read_request = partial(of_functions, lambda function: function.max_read_request)
payload = partial(of_functions, lambda function: function.max_payload)
