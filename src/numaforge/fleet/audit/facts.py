"""The facts that machines of one make share, a row for each."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
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
    values_of[_SETTINGS] = {
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


_SETTINGS = "NA162"
_READERS: Mapping[str, Read] = {
    "NA101": readings.kernel,
    "NA102": whole(readings.operating_system),
    "NA103": whole(readings.cmdline),
    "NA104": readings.cgroup,
    "NA105": whole(lambda machine: machine.firmware),
    "NA110": whole(readings.cpus),
    "NA111": whole(readings.numa_nodes),
    "NA112": whole(readings.memory),
    "NA113": readings.hugepages,
    "NA114": readings.swap,
    "NA115": readings.frequency_scaling,
    "NA116": whole(readings.sleep_states),
    "NA117": readings.sysctls,
    "NA118": lambda machine: machine.kernel_values,
    "NA120": readings.gpus,
    "NA121": of_gpus(lambda gpu: gpu.numa_node),
    "NA122": of_gpus(readings.link_of_gpu),
    "NA123": of_gpus(readings.gpu_memory),
    "NA124": of_gpus(readings.ecc),
    "NA125": of_gpus(readings.mig),
    "NA126": of_gpus(lambda gpu: gpu.nvlinks),
    "NA127": of_gpus(readings.persistence),
    "NA128": of_gpus(lambda gpu: gpu.vbios),
    "NA129": of_gpus(readings.bar1),
    "NA130": readings.nvidia_driver,
    "NA131": readings.nvidia_packages,
    "NA140": readings.rdma_devices,
    "NA141": of_rdma_devices(lambda each: each.firmware),
    "NA142": of_rdma_devices(readings.ports),
    "NA143": of_rdma_devices(lambda each: each.mtu),
    "NA144": of_rdma_devices(lambda each: each.virtual_functions),
    "NA145": readings.nics,
    "NA146": readings.nvmes,
    "NA150": of_functions(readings.access_control, "bridges"),
    "NA151": readings.read_request("GPUs", "NICs"),
    "NA152": readings.payload("GPUs", "NICs"),
    "NA153": of_functions(readings.link_of_function, "NICs"),
    "NA154": of_functions(readings.address_translation, "NICs"),
    "NA155": of_functions(lambda function: function.iommu_domain, "GPUs", "NICs"),
    "NA160": readings.kubelet,
    "NA161": whole(readings.containerd),
    _SETTINGS: lambda _: {},
    "NA163": whole(readings.tuned),
    "NA164": whole(readings.profile),
}
"""How each fact of facts.json is read; the kubelet's settings are given (`facts_of`)."""


def _rule(row: Mapping[str, Any]) -> PeerRule:
    return PeerRule(
        row["id"],
        Severity(row.get("severity", Severity.WARNING)),
        f"not as its siblings: {row['what']}",
        row["what"],
        _READERS[row["id"]],
        row["remedy"],
        row.get("roughly"),
    )


PEER_RULES = tuple(map(_rule, json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))))
"""The facts that are compared, in the order of reports."""

PEER_RULE: Mapping[str, PeerRule] = {rule.id: rule for rule in PEER_RULES}
