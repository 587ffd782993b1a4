"""The kubelet that runs, and what the cluster makes of the node."""

from __future__ import annotations

from typing import Any

import pytest

from numaforge.file_content import PlannedFile
from numaforge.kubelet.config.comparison import differences, same_memory
from numaforge.quantity import parse_quantity
from numaforge.verification import expectations
from numaforge.verification.cluster import ApiServer
from numaforge.verification.live import VerifiedNode


@pytest.mark.expects(table=expectations.kubelet_files)
def test_the_kubelet_started_after_its_file_was_written(
    node: VerifiedNode, name: str, expected: PlannedFile, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("kubeconfig", None):
        pytest.skip("the running configuration itself is compared: --kubeconfig is given")
    written = node.live.changed.get(name)
    assert written is not None, f"{name} does not exist"
    # Modification times are read in whole seconds.
    started = node.live.kubelet_started + 1
    assert started >= written, (
        f"{name} is younger than the kubelet's process: restart the kubelet, or give --kubeconfig to compare "
        "what it runs with"
    )


@pytest.mark.expects(table=expectations.kubelet_settings)
def test_running_kubelet(node: VerifiedNode, name: str, expected: Any, cluster: ApiServer) -> None:
    running = cluster.running_config(node.live.node_name)
    assert differences(name, expected, running.get(name)) == []


@pytest.mark.expects(table=expectations.allocatable)
def test_allocatable(node: VerifiedNode, name: str, expected: str, cluster: ApiServer) -> None:
    quantities = cluster.allocatable(node.live.node_name)
    assert name in quantities, f"the node offers no {name}: {quantities}"
    found = quantities[name]
    if name == "memory":
        capacity, planned = cluster.capacity(node.live.node_name)[name], node.plan.memory.capacity_bytes
        assert same_memory(expected, found, planned, capacity), f"{found} of {capacity}, not {expected}"
    else:
        assert parse_quantity(found) == parse_quantity(expected), name
