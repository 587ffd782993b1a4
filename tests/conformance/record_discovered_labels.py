"""Record the labels that GPU feature discovery gives the ready machines.

`python -m tests.conformance.record_discovered_labels CHECKOUT`, where CHECKOUT is a clone of
github.com/NVIDIA/k8s-device-plugin. Needs Go and a C compiler. Its own labelers answer; only NVML is a fake.
"""

import sys
from functools import cache
from pathlib import Path
from typing import Any

from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.saved import ready_machine, ready_machines
from numaforge.roles.device_plugin.plan import DevicePluginPlan
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus
from tests.conformance.checkouts import answers_in, text_of, version_of

FILE = Path(__file__).with_name("discovered_labels.json")
PROGRAM = Path(__file__).with_name("discovered_labels.go")
GPU = "nvidia.com/gpu"
_MEBIBYTE = 2**20
_CAPABILITIES = {"20": "8.0", "22": "8.6", "23": "9.0", "29": "10.0", "2e": "12.1", "31": "10.3"}
"""CUDA's compute capability by the first digits of a device id, where the machine's snapshot has none."""

PLUGINS = {
    "none": DevicePluginPlan("none"),
    "single": DevicePluginPlan("single"),
    "mixed": DevicePluginPlan("mixed"),
    "time-slicing": DevicePluginPlan("none", "time-slicing", {GPU: 4}),
    "time-slicing, renamed": DevicePluginPlan("none", "time-slicing", {GPU: 4}, renamed=True),
    "mps": DevicePluginPlan("none", "mps", {GPU: 2}),
    "mixed, time-slicing": DevicePluginPlan("mixed", "time-slicing", {GPU: 3}),
}
"""The configurations of the plugin, which feature discovery reads, too."""


@cache
def machines() -> dict[str, NodeTopology]:
    """Return the ready machines with NVIDIA's GPUs."""
    ready = {name: ready_machine(name) for name in ready_machines()}
    return {name: machine for name, machine in ready.items() if nvml_gpus(machine)}


def question(machine: NodeTopology, plugin: DevicePluginPlan) -> dict[str, Any]:
    """Return a machine and a configuration as the program reads them; what is not known is 0, or "?"."""
    replicas = [{"name": name, "replicas": count} for name, count in plugin.replicas.items()]
    way = {"renameByDefault": plugin.renamed, "resources": replicas}
    sharing = {{"time-slicing": "timeSlicing"}.get(plugin.sharing, plugin.sharing): way} if replicas else {}
    cuda = machine.nvidia.cuda_version if machine.nvidia else None
    gpus = nvml_gpus(machine).values()
    return {
        "Gpus": [
            {
                "Name": gpu.name or "?",
                "Memory": (gpu.memory_bytes or 0) // _MEBIBYTE,
                "Capability": [
                    int(part) for part in (gpu.compute_capability or _CAPABILITIES[gpu.device[:2]]).split(".")
                ],
                "MigCapable": bool(gpu.mig_capable),
                "Mig": list(mig_device_names(gpu) or ()) if gpu.mig_mode == "enabled" else None,
            }
            for gpu in gpus
        ],
        "Driver": (machine.nvidia.version if machine.nvidia else None) or "0.0",
        "Cuda": [int(part) for part in (cuda or "0.0").split(".")],
        "Product": machine.product_name or "?",
        "Config": {"version": "v1", "flags": {"migStrategy": plugin.mig_strategy}, "sharing": sharing},
    }


def main(checkout: Path) -> None:
    """Ask the plugin of a checkout, and write the file."""
    asked = [(name, kind) for name in machines() for kind in PLUGINS]
    questions = [question(machines()[name], PLUGINS[kind]) for name, kind in asked]
    answers = answers_in(checkout, "internal/lm", PROGRAM, questions)
    record: dict[str, Any] = {"version": version_of(checkout, "k8s-device-plugin"), "machines": {}}
    for (name, kind), question_asked, labels in zip(asked, questions, answers, strict=True):
        machine = record["machines"].setdefault(name, {"gpus": question_asked["Gpus"], "labels": {}})
        machine["labels"][kind] = labels
    FILE.write_text(text_of(record, "machines", "labels"), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
