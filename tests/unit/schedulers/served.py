"""Nodes as schedulers are told of them, made of the ready machines."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.roles.device_plugin.plan import devices_of
from numaforge.schedulers.fleet import ServedNode
from numaforge.topology.model import NodeTopology
from numaforge.topology.ready import ready_machine

TRAINING = "training"
BY_CLAIMS = {"extends": "training", "kubelet": {"resource_engine": "dra"}, "dra": {"gpus": "claims"}}


@cache
def machine(name: str) -> NodeTopology:
    return ready_machine(name)


def served(name: str, profile: object = TRAINING, hostname: str = "", kubelet: str = "1.36.3") -> ServedNode:
    """Return a ready machine with its plan."""
    found = replace(machine(name), hostname=hostname or machine(name).hostname)
    plan = plan_node(found, load_profile(profile), kubelet)  # type: ignore[arg-type]
    return ServedNode(found, plan, devices_of(found, plan), "0123456789abcdef0123")
