"""The running kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from numaforge.kubelet.config.comparison import differences, same_memory
from numaforge.lib import shell
from numaforge.lib.file_content import PlannedFile
from numaforge.lib.quantity import parse_quantity
from numaforge.roles.promise import Promise, Table, require, unit_starts_at_boot, unit_state

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.cluster import ApiServer
    from numaforge.verification.live import VerifiedNode


def kubelet_files(plan: NodePlan) -> Table:
    """The kubelet's files, which it reads only when it starts."""
    return {file.path: file for file in plan.files if file.role == "kubelet"}


def kubelet_settings(plan: NodePlan) -> Table:
    """Each field of the kubelet's configuration."""
    return dict(plan.kubelet.settings) if plan.kubelet else {}


def unit(plan: NodePlan) -> Table:
    """The kubelet runs."""
    return {plan.kubelet.unit: ("active",)} if plan.kubelet else {}


def boot_unit(plan: NodePlan) -> Table:
    """The kubelet starts at boot."""
    return {plan.kubelet.unit: "enabled"} if plan.kubelet else {}


def _asks(plan: NodePlan) -> Iterator[str]:
    """Yield the shell command that queries the kubelet."""
    if plan.kubelet:
        yield shell.call("tell_kubelet", [plan.kubelet.unit])


def _the_kubelet_started_after_its_file_was_written(
    node: VerifiedNode, name: str, expected: PlannedFile, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("kubeconfig", None):
        pytest.skip("the running configuration itself is compared: --kubeconfig is given")
    written = node.live.changed.get(name)
    if written is None:
        pytest.fail("does not exist", pytrace=False)
    # Modification times are read in whole seconds.
    started = node.live.kubelet_started + 1
    require(
        started >= written,
        "is younger than the kubelet's process: restart the kubelet, or give --kubeconfig to compare what it "
        "runs with",
    )


def _running_kubelet(node: VerifiedNode, name: str, expected: Any, cluster: ApiServer) -> None:
    running = cluster.running_config(node.live.node_name)
    different = differences(name, expected, running.get(name))
    require(not different, "; ".join(map(str, different)))


def allocatable(plan: NodePlan) -> Table:
    """Each resource of the node's Allocatable, as Kubernetes writes quantities."""
    return {} if plan.allocatable is None else dict(plan.allocatable.quantities)


def _allocatable(node: VerifiedNode, name: str, expected: str, cluster: ApiServer) -> None:
    quantities = cluster.resources(node.live.node_name, "allocatable")
    require(name in quantities, f"the node offers none, planned {expected}")
    quantity = quantities[name]
    if name == "memory":
        capacity, planned = (
            cluster.resources(node.live.node_name, "capacity")[name],
            node.plan.memory.capacity_bytes,
        )
        require(
            same_memory(expected, quantity, planned, capacity),
            f"{quantity} of {capacity}, planned {expected}",
        )
    else:
        require(parse_quantity(quantity) == parse_quantity(expected), f"{quantity}, planned {expected}")


PROMISES = (
    Promise(
        "the_kubelet_started_after_its_file_was_written",
        kubelet_files,
        _the_kubelet_started_after_its_file_was_written,
        units=unit,
        properties=("MainPID", "ExecMainStartTimestampMonotonic"),
        asks=_asks,
    ),
    Promise("unit_state", unit, unit_state),
    Promise("unit_starts_at_boot", boot_unit, unit_starts_at_boot),
    Promise("running_kubelet", kubelet_settings, _running_kubelet),
    Promise("allocatable", allocatable, _allocatable),
)
