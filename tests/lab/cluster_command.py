"""`numaforge cluster` as an admin asks it, with the login of a control plane of the lab."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lab.controlplane import ControlPlane


def ask(control_plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what it says, whether or not it fails."""
    login = (f"--kubeconfig={control_plane.kubeconfig}", f"--kubectl={control_plane.kubectl()}")
    command = [str(Path(sys.executable).with_name("numaforge")), "cluster", *arguments, *login]
    return subprocess.run(command, capture_output=True, text=True, check=False)
