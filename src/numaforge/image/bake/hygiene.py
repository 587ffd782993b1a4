"""Whether an image is fit for many machines: a test for each rule, run by `numaforge verify --image DIR`.

pytest runs this file with testinfra's chroot connection; the image needs sh, coreutils and sed.
"""

from __future__ import annotations

from typing import Any

import pytest

from numaforge.lib import shell
from numaforge.lib.file_content import WRITTEN_BELOW

RULES = {
    "ssh-host-keys": "each node makes its own host keys",
    "machine-id": "each node gets its own machine-id, which is there and empty, or uninitialized",
    "identity": "nothing else in the image identifies a machine",
    "kubelet-state": "no kubelet has run: no state files, keys, checkpoints",
    "cluster-login": "no login to a cluster is in the image",
    "generated-configuration": "nothing that was planned for one machine is in the image",
    "cdi": "CDI specifications are made on the node",
    "imex-nodes": "the nodes of an IMEX domain are written on the node",
    "mig-placements": "MIG placements are made on the node",
    "login-keys": "no key that logs in is in the image",
    "cloud-init": "cloud-init has seen no instance",
    "leases": "no address was leased",
    "builder": "nothing is left of what made the image",
    "crashes": "no program has left its memory",
    "journal": "no journal is in the image",
    "logs": "logs are small",
    "started": "the container runtime was never started",
    "enabled": "the kubelet, and what plans the node before it, start at boot",
    "program": "numaforge runs in the image, and is compiled",
    "manifest": "numaforge's files match its manifest",
    "packages": "the packages are those of a manager that can be asked",
    "held": "packages that decide are held",
    "cmdline": "each machine boots with the kernel parameters that its plan needs",
    "writable": "the node can write each folder that a plan writes to",
}


@pytest.fixture(scope="module")
def leftovers(host: Any) -> dict[str, list[str]]:
    """The violations, by rule."""
    library = shell.library(
        "roles/host/look", "roles/kernel_cmdline/look", "image/bake/packages", "image/bake/hygiene"
    )
    written = shell.assignments({"WRITTEN_BELOW": " ".join(WRITTEN_BELOW)})
    done = host.run("sh -c %s", written + library + "tell_leftovers")
    assert done.rc == 0, done.stderr
    violations: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        rule, _, violation = line.partition(" ")
        violations.setdefault(rule, []).append(violation)
    return violations


@pytest.mark.parametrize("rule", RULES)
def test_image(rule: str, leftovers: dict[str, list[str]]) -> None:
    violations = leftovers.get(rule, [])
    assert not violations, f"{RULES[rule]}: {', '.join(violations)}"
