"""`numaforge cluster` as an admin asks it, with the login of a control plane of the lab."""

import subprocess

from lab.controlplane import ControlPlane
from tests.lab.rollouts import program


def ask(control_plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what it says, whether or not it fails."""
    login = (f"--kubeconfig={control_plane.kubeconfig}", f"--kubectl={control_plane.kubectl()}")
    return program("numaforge", "cluster", *arguments, *login, stderr=subprocess.PIPE)
