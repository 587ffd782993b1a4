"""A change between two plans that a boot cuts off: the old plan is whole again, with all that it promises."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.node import Node
from lab.roots import UnavailableError
from lab.waiting import wait_until
from numaforge.change.transaction import CURRENT, TRANSACTIONS
from numaforge.lib.quantity import parse_quantity
from tests.lab import rollouts
from tests.lab.rollouts import PROFILE, QUICK, inventory
from tests.lab.transactions import (
    CUTS,
    PATIENCE_SECONDS,
    end_boot,
    put_back,
    ready,
    until_through_boots,
    upgrade_systemd,
)

BOOT_BYTES = 16 * 2**20
"""By how much a boot changes the memory of a machine; a page pool of one plan differs by more."""


def profile(pages: int, swappiness: int, reserved: str) -> dict[str, Any]:
    return {
        **PROFILE,
        "memory": {**PROFILE["memory"], "kube_reserved": reserved},
        "hugepages": [{"size": "2Mi", "count_per_numa_node": pages}],
        "tuning": {"sysctls": {"vm.swappiness": str(swappiness)}},
    }


FIRST, SECOND = profile(64, 33, "256Mi"), profile(32, 7, "320Mi")
EVENTS = ("apply kernel_values", "apply hugepages", "apply kubelet", "start kubelet", "prove kubelet")
HOLD = """#!/bin/sh
/bin/mv "$@" || exit
for target; do :; done
case $target in */txn/*/state) read -r at < "$target" ;; *) exit 0 ;; esac
[ -e "/run/hold/$at" ] || exit 0
rm "/run/hold/$at"
echo "$at" > /run/held
read -r _ < /run/go-on
"""
"""Stands for `mv`, with which each step is recorded; it holds the change there."""


def inventory_of(lab: Lab, folder: Path, wanted: dict[str, Any]) -> list[str]:
    """Return the words that name the node with a profile on a command line."""
    return ["--limit", lab.nodes[0].name, str(inventory(lab, folder, profile=wanted, **QUICK))]


def starts(node: Node) -> list[str]:
    """Return which boot of the kernel a node is in, and when its userspace has started."""
    return node.run(
        "cat /proc/sys/kernel/random/boot_id;"
        " systemctl show -p ActiveEnterTimestampMonotonic --value local-fs.target"
    ).split()


def offered(lab: Lab, node: Node) -> dict[str, str]:
    """Return the Allocatable that the kubelet has reported since it started."""
    started = int(node.run("stat -c %Y /proc/$(systemctl show -p MainPID --value kubelet)"))

    def reported() -> bool:
        conditions = lab.get("node", node.name)["status"]["conditions"]
        heard = next(each["lastHeartbeatTime"] for each in conditions if each["type"] == "Ready")
        return datetime.fromisoformat(heard).timestamp() >= started

    wait_until(reported, "its kubelet has reported nothing", PATIENCE_SECONDS, every_s=1)
    ready(lab, node)
    return dict(lab.get("node", node.name)["status"]["allocatable"])


def saved_at(event: str) -> str:
    return event.replace(" ", "-")


@pytest.fixture(scope="module")
def no_soft_reboot() -> list[str]:
    """Why the node's systemd knows no soft reboot, if it does not."""
    return []


@pytest.fixture(scope="module")
def allocatable(
    lab: Lab, no_soft_reboot: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Save a node at each step of a change between the plans; yield what it offers with the first one."""
    node = put_back(lab)
    try:
        upgrade_systemd(node)
    except UnavailableError as error:
        no_soft_reboot.append(str(error))
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    words = ["pyinfra", "-y", *inventory_of(lab, first, FIRST), "deploys/site.py"]
    rollouts.in_repository(*words, timeout_s=PATIENCE_SECONDS)
    promised = offered(lab, node)
    node.run("cat > /usr/local/bin/mv; chmod +x /usr/local/bin/mv", input_text=HOLD)
    held = " ".join(f"'/run/hold/{event}'" for event in EVENTS)
    node.run(f"mkdir /run/hold; touch {held}; mkfifo /run/held /run/go-on")
    words = ["pyinfra", "-y", *inventory_of(lab, second, SECOND), "deploys/site.py"]
    with rollouts.running(*words):
        for event in EVENTS:
            assert node.run("cat /run/held", timeout_s=PATIENCE_SECONDS) == f"{event}\n"
            node.pause()
            node.save(saved_at(event))
            node.resume()
            node.run("echo > /run/go-on")
    yield promised
    with node.monitor() as monitor:
        for event in EVENTS:
            monitor.human(f"delvm {saved_at(event)}")


@pytest.mark.long
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("cut", CUTS)
def test_interruption_between_two_plans_keeps_every_promise_of_the_old_plan(
    lab: Lab, allocatable: dict[str, str], no_soft_reboot: list[str], tmp_path: Path, cut: str, event: str
) -> None:
    if cut == "soft-reboot" and no_soft_reboot:
        pytest.skip(no_soft_reboot[0])
    node = lab.nodes[0]
    node.power_off()
    node.wake(saved_at(event))
    kernel, userspace = starts(node)
    node.run("rm -r /run/hold /usr/local/bin/mv")
    end_boot(node, cut)
    until_through_boots(node, f"[ ! -L {CURRENT} ]")
    assert node.run(f"cat {TRANSACTIONS}/last").split()[1] == "rolled-back"
    kernel_now, userspace_now = starts(node)
    assert (kernel_now == kernel, userspace_now == userspace) == (cut == "soft-reboot", False)
    now = offered(lab, node)
    assert abs(parse_quantity(now["memory"]) - parse_quantity(allocatable["memory"])) < BOOT_BYTES
    assert now | {"memory": ""} == allocatable | {"memory": ""}
    verified = rollouts.program("numaforge", "verify", *inventory_of(lab, tmp_path / "first", FIRST))
    assert verified.returncode == 0, verified.stdout
