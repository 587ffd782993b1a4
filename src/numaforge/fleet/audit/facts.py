"""The facts that machines of one make share, a row for each."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numaforge.findings import Rule, Severity
from numaforge.fleet.audit import readings
from numaforge.fleet.audit.readings import Read, Spread, Values, of_functions, of_gpus, of_rdma_devices, whole
from numaforge.machine.topology.model import NodeTopology

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SAME_SHARE = 0.005  # the kernel keeps a little memory for itself, and not the same amount on each machine
# Kubelet settings that differ by node.
_OF_ONE_NODE = frozenset({"address", "healthzBindAddress", "providerID", "registerWithTaints", "nodeIP"})


@dataclass(frozen=True)
class PeerRule(Rule):
    """A fact that machines of one make share: `what`, how to `read` it, and the way out for an outlier.

    Numbers in two texts that are at least `roughly` are equal within half a percent.
    """

    what: str
    read: Read
    remedy: str
    roughly: float | None = None

    def alike(self, one: str, second: str) -> bool:
        """Return whether two values count as equal."""
        least = self.roughly
        if one == second or least is None or _NUMBER.sub("", one) != _NUMBER.sub("", second):
            return one == second
        first_numbers, second_numbers = ([*map(float, _NUMBER.findall(text))] for text in (one, second))
        return len(first_numbers) == len(second_numbers) and all(
            a == b or (min(a, b) >= least and abs(a - b) <= _SAME_SHARE * max(a, b))
            for a, b in zip(first_numbers, second_numbers, strict=True)
        )


def facts_of(machine: NodeTopology, settings: Mapping[str, Any]) -> dict[str, Values]:
    """Return the facts of a machine by rule; `settings` are those of its running kubelet."""
    values_of = {rule.id: rule.read(machine) for rule in PEER_RULES}
    values_of[_SETTINGS.id] = {
        name: json.dumps(value, sort_keys=True)
        for name, value in sorted(settings.items())
        if name not in _OF_ONE_NODE
    }
    return {rule: values for rule, values in values_of.items() if values}


def text_of(value: str | Spread) -> str:
    """Return a value for people and for comparing: `7 x Gen5 x16, 1 x Gen4 x8`."""
    if isinstance(value, str):
        return value
    ordered = sorted(value.items(), key=lambda each: (-len(each[1]), each[0]))
    return ", ".join(f"{len(places)} x {text}" if places else text for text, places in ordered)


def _rule(number: int, noun: str, read: Read, remedy: str, severity: Severity = Severity.WARNING) -> PeerRule:
    title = f"not as its siblings: {noun}"
    return PeerRule(f"NA{number}", severity, title, noun, read, remedy, _ROUGH.get(number))


_ROUGH = {112: 0, 117: 1024}  # memory, and sysctls that the kernel makes of it
_BIOS = "compare the firmware's set-up (BIOS) with a sibling's"
_FIRMWARE = "bring it to the siblings' version with the maker's tool, with the node drained"
_PROFILE = "apply the siblings' profile to it: `numaforge apply`"
_PLACE = "`numaforge topology HOST --ascii` shows where it is"
_RISER = f"reseat the board, its riser or cable; {_PLACE}"
_ERROR, _NOTE = Severity.ERROR, Severity.NOTE
_SETTINGS = _rule(
    162,
    "settings of the kubelet",
    lambda _: {},
    "compare the kubelet's file, drop-ins and flags: `numaforge diff HOST SIBLING`",
)

PEER_RULES: tuple[PeerRule, ...] = (
    _rule(101, "kernel", readings.kernel, "install the siblings' kernel, and boot it"),
    _rule(102, "operating system", whole(readings.operating_system), "install the siblings' release"),
    _rule(103, "kernel's command line", whole(readings.cmdline), "boot it with the siblings' parameters"),
    _rule(104, "cgroup version", readings.cgroup, "boot it with the siblings' cgroup version"),
    _rule(105, "firmware of the machine (BIOS)", whole(lambda machine: machine.firmware), _FIRMWARE),
    _rule(110, "CPUs", whole(readings.cpus), f"see which CPUs are offline, and {_BIOS}"),
    _rule(111, "NUMA nodes", whole(readings.numa_nodes), f"{_BIOS}: NPS, SNC"),
    _rule(
        112,
        "memory of each NUMA node",
        whole(readings.memory),
        "see which module the firmware has left out: `dmidecode -t memory`, and the BMC's log",
    ),
    _rule(113, "huge pages of each NUMA node", readings.hugepages, _PROFILE),
    _rule(114, "swap", readings.swap, _PROFILE),
    _rule(115, "frequency scaling", readings.frequency_scaling, f"{_PROFILE}; for another driver, {_BIOS}"),
    _rule(116, "sleep states of CPUs", whole(readings.sleep_states), _BIOS),
    _rule(117, "sysctls", readings.sysctls, _PROFILE),
    _rule(118, "values of the kernel", lambda machine: machine.kernel_values, _PROFILE),
    _rule(
        120, "GPUs", readings.gpus, f"look for the board in the BMC's log, and reseat it; {_PLACE}", _ERROR
    ),
    _rule(121, "NUMA nodes of GPUs", of_gpus(lambda gpu: gpu.numa_node), f"{_BIOS}, and the slots"),
    _rule(122, "PCIe links of GPUs", of_gpus(readings.link_of_gpu), _RISER),
    _rule(
        123, "memory of GPUs", of_gpus(readings.gpu_memory), "see whether ECC and MIG are as on its siblings"
    ),
    _rule(
        124, "ECC of GPUs", of_gpus(readings.ecc), "`nvidia-smi -e 1`, then reset the GPU, the node drained"
    ),
    _rule(125, "MIG of GPUs", of_gpus(readings.mig), f"{_PROFILE}, with the node drained"),
    _rule(
        126,
        "NVLinks of GPUs",
        of_gpus(lambda gpu: gpu.nvlinks),
        "see `nvidia-smi nvlink -s`, the fabric manager's log and the baseboard",
        _ERROR,
    ),
    _rule(127, "persistence of GPUs", of_gpus(readings.persistence), "enable nvidia-persistenced.service"),
    _rule(128, "firmware of GPUs (VBIOS)", of_gpus(lambda gpu: gpu.vbios), _FIRMWARE),
    _rule(129, "BAR1 of GPUs", of_gpus(readings.bar1), f"{_BIOS}: resizable BAR, above 4G decoding"),
    _rule(
        130,
        "NVIDIA's driver",
        readings.nvidia_driver,
        "install the siblings' driver with the node drained, and hold the package",
    ),
    _rule(131, "NVIDIA's packages", readings.nvidia_packages, "install the versions that fit the driver"),
    _rule(
        140,
        "RDMA devices",
        readings.rdma_devices,
        f"see `lspci` and the log of the driver, and reseat the NIC; {_PLACE}",
        _ERROR,
    ),
    _rule(141, "firmware of RDMA devices", of_rdma_devices(lambda each: each.firmware), _FIRMWARE),
    _rule(
        142, "ports of RDMA devices", of_rdma_devices(readings.ports), "see cable, transceiver, switch port"
    ),
    _rule(
        143, "MTU of RDMA devices", of_rdma_devices(lambda each: each.mtu), "set it on interface and switch"
    ),
    _rule(
        144,
        "virtual functions",
        of_rdma_devices(lambda each: each.virtual_functions),
        "make as many as on its siblings (sriov_numvfs)",
    ),
    _rule(145, "network functions", readings.nics, f"look for the NIC in the BMC's log; {_PLACE}"),
    _rule(146, "NVMe controllers", readings.nvmes, f"look for the drive in the BMC's log; {_PLACE}"),
    _rule(
        150,
        "access control of PCIe (ACS)",
        of_functions(readings.access_control, "bridges"),
        "`numaforge audit --only gpudirect HOST` says which bits are wrong, and what sets them",
    ),
    _rule(
        151,
        "largest read request of PCIe (MaxReadReq)",
        readings.read_request("GPUs", "NICs"),
        f"`setpci -s ADDRESS CAP_EXP+8.w` as on its siblings; a boot brings the firmware's again: {_BIOS}",
    ),
    _rule(
        152,
        "largest payload of PCIe (MaxPayload)",
        readings.payload("GPUs", "NICs"),
        f"{_BIOS}, and pci=pcie_bus_... of the kernel's command line",
    ),
    _rule(153, "PCIe links of NICs", of_functions(readings.link_of_function, "NICs"), _RISER),
    _rule(
        154,
        "address translation of NICs (ATS)",
        of_functions(readings.address_translation, "NICs"),
        "set ATS_ENABLED as on its siblings with mlxconfig, and boot",
    ),
    _rule(
        155,
        "IOMMU domains",
        of_functions(lambda function: function.iommu_domain, "GPUs", "NICs"),
        "boot it with the siblings' iommu parameters",
    ),
    _rule(160, "kubelet", readings.kubelet, "install the siblings' version with the node drained"),
    _rule(
        161, "containerd", whole(readings.containerd), "install the siblings' version, and hold the package"
    ),
    _SETTINGS,
    _rule(163, "TuneD's profiles", whole(readings.tuned), "`tuned-adm profile` with the siblings'", _NOTE),
    _rule(164, "profile of its plan", whole(readings.profile), _PROFILE),
)
"""The facts that are compared, in the order of reports."""

PEER_RULE: Mapping[str, PeerRule] = {rule.id: rule for rule in PEER_RULES}
