"""Throw-away twins of a node: restored from its saved state beside it, and cut off from the lab's cluster."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lab.cluster import Lab
from lab.node import MACHINE_ARGUMENTS, Node
from lab.ports import LOOPBACK, reserved_port, started_on_free_ports
from lab.progress import step


@dataclass(frozen=True)
class Twin(Node):
    """A second machine from the same saved state, with the name and the keys of the first."""

    original: Node

    def qemu_arguments(self) -> list[str]:
        """Return QEMU's command line with an inbound-only network.

        The twin's kubelet would otherwise speak to the API server for the original.
        """
        arguments = super().qemu_arguments()
        network = next(each for each in arguments if each.startswith("user,id=management,"))
        arguments[arguments.index(network)] = (
            f"user,id=management,restrict=on,hostfwd=tcp:{LOOPBACK}:{self.ssh_port}-:22"
        )
        return arguments

    def ssh_arguments(self, *extra: str) -> list[str]:
        """Return the command line that logs in as root; append a command to run it instead."""
        known_as = f"HostKeyAlias=[{LOOPBACK}]:{self.original.ssh_port}"
        return self.original.ssh_arguments("-p", str(self.ssh_port), "-o", known_as, *extra)

    def discard(self) -> None:
        """End the machine and remove its disk."""
        self.power_off()
        if self.folder.exists():
            shutil.rmtree(self.folder)


@contextmanager
def twins(lab: Lab, count: int) -> Iterator[list[Twin]]:
    """Run `count` twins of the lab's first node, each as that node was when first Ready."""
    node = lab.nodes[0]
    made = [
        Twin(f"{node.name}-twin-{number}", node.machine, node.state, 0, LOOPBACK, node)
        for number in range(1, count + 1)
    ]
    try:
        with step(f"restore {count} twins of {node.name}"):
            _copy_machine(node, made)
            with ThreadPoolExecutor() as pool:
                awake = list(pool.map(_awake, made))
        yield awake
    finally:
        for twin in made:
            twin.discard()


def _awake(twin: Twin) -> Twin:
    """Start a twin, on another port where its own is taken."""

    def wake() -> Twin:
        on_a_port = replace(twin, ssh_port=reserved_port())
        on_a_port.wake()
        return on_a_port

    return started_on_free_ports(wake, twin.power_off)


def _copy_machine(node: Node, made: list[Twin]) -> None:
    """Copy the node's disk, which holds its saved state, while the node is paused and its disk complete."""
    for twin in made:
        twin.discard()
        twin.folder.mkdir()
        for name in ("identity.tar", "cpufreq.aml", MACHINE_ARGUMENTS):
            shutil.copy(node.folder / name, twin.folder)
    first, *others = made
    node.pause()
    try:
        shutil.copyfile(node.disk, first.disk)
    finally:
        node.resume()
        node.set_clock()
    for twin in others:
        shutil.copyfile(first.disk, twin.disk)
