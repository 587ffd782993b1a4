"""How much is compared, and with which kubelets.

The counts hold for all minors together. ORACLE_SCALE multiplies them and chooses other cases; ORACLE_MINORS
names fewer minors ("1.30 1.36").
"""

import os
from functools import cache

import pytest

from lab import gobuild
from lab.errors import LabError
from lab.oracle import MINORS, Oracle, component
from numaforge.kubelet_minors.versions import LATEST_MINOR

SCALE = int(os.environ.get("ORACLE_SCALE", "1"))
ASKED = tuple(os.environ.get("ORACLE_MINORS", " ".join(MINORS)).split())
MUST_BUILD = f"1.{LATEST_MINOR}"


@cache
def why_not(minor: str) -> str | None:
    """Say why the kubelet's code of a minor does not build here, or return None once it is built."""
    try:
        gobuild.build(component(minor))
    except LabError as error:
        return str(error)
    return None


def oracle_of(minor: str) -> Oracle:
    """Return the oracle of a minor; skip the test where its code does not build, unless it is the newest."""
    reason = why_not(minor)
    if reason is None:
        return Oracle(minor)
    if minor == MUST_BUILD:
        pytest.fail(f"kubelet {minor} must build: {reason}")
    pytest.skip(f"kubelet {minor} does not build: {reason}")


def share(total: int, minors: tuple[str, ...] = ASKED) -> int:
    """Return how much of a total is asked of one minor: as much of each that builds, in all no less."""
    building = [minor for minor in minors if why_not(minor) is None]
    return -(-total * SCALE // len(building))
