"""A kubelet starts in a rehearsal with either container runtime; without a virtual node."""

import os

import pytest

from lab import kubelets
from tests.lab.rehearsal_here import start

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")


@pytest.mark.parametrize(
    ("minor", "runtime"),
    [
        (kubelets.OWN, "containerd"),
        pytest.param(kubelets.OWN, "crio", marks=pytest.mark.long),
        pytest.param(kubelets.OLDEST, "containerd", marks=pytest.mark.long),
        pytest.param(kubelets.OLDEST, "crio", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        pytest.param("", "outcome started", id="starts"),
        pytest.param("maxPods: -1\n", "outcome ended", id="refuses-its-configuration"),
    ],
)
def test_kubelet_start_outcome_is_visible_with_each_runtime(
    minor: str, runtime: str, more: str, outcome: str
) -> None:
    assert start(runtime, more, minor)[0] == outcome
