"""`numaforge cluster` and `generate cluster` with the login of a control plane of the lab."""

import subprocess

from lab.controlplane import ControlPlane
from tests.lab.rollouts import program


def ask(control_plane: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    """Return the answer to these words and the login, whether or not it fails."""
    login = (f"--kubeconfig={control_plane.kubeconfig}", f"--kubectl={control_plane.kubectl()}")
    return program("numaforge", *words, *login, stderr=subprocess.PIPE)
