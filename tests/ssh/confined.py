"""What keeps a host out of the CPUs of pods."""

from typing import Any

CONFINED: dict[str, Any] = {
    "name": "confined",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "interrupts": {
        "irqbalance": "reserved",
        "devices": "reserved",
        "default_affinity": "reserved",
        "rps": "reserved",
        "workqueues": "reserved",
    },
    "system": {"daemons": "reserved"},
}
