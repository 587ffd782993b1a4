"""Real kubelets of eight minors: build them, and try whole configurations on them."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from lab import gobuild
from lab.errors import LabError
from lab.node import Node
from lab.paths import LAB
from lab.progress import step
from numaforge.kubelet import last_words
from numaforge.node.program import program_source

MINORS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
OLDEST = MINORS[0]
OWN = gobuild.KUBERNETES.name.rpartition("-")[2]
"""The minor of the lab's cluster and of its node."""

FOLDER = "/var/lib/judge"
CONFIG_PATH = f"{FOLDER}/kubelet.yaml"
DROP_IN_DIR = f"{FOLDER}/kubelet.conf.d"
ROOT_DIR = f"{FOLDER}/root"

_RECEIVE = f"""
set -e
systemctl stop kubelet lab-deviceplugin
rm -rf {FOLDER}
mkdir {FOLDER}
tar -x -C {FOLDER}
exec python3 {FOLDER}/judge.py {FOLDER}
"""


@dataclass(frozen=True)
class Trial:
    """One start of a kubelet: its file, drop-ins by name, flags, and the state files that it finds."""

    id: str
    config: str
    drop_ins: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    before: str | None = None
    """A configuration that the kubelet ran with before: what it left in the state files is found."""
    state: Mapping[str, str] = field(default_factory=dict)
    """State files by name, which add to or replace those left by `before`."""
    edits: tuple[tuple[str, str, str], ...] = ()
    """Changes to state files: name, text, text in its place."""


@dataclass(frozen=True)
class Verdict:
    """How a start ended."""

    starts: bool
    error: str
    """The error that ended the kubelet; empty where it started."""
    state: Mapping[str, str]
    """The state files that it found."""
    took_s: float


def component(minor: str) -> gobuild.Component:
    """Return what builds the kubelet of one minor; that of the lab comes with the cluster's programs."""
    return gobuild.KUBERNETES if minor == OWN else gobuild.kubernetes(minor, "kubelet")


def build(minor: str) -> Path:
    """Return the kubelet of one minor, built from its Go module."""
    return gobuild.build(component(minor)) / "kubelet"


def version(minor: str) -> str:
    """Return the release that stands for a minor, such as `1.30.14`."""
    return gobuild.version(component(minor))


def judge(node: Node, minor: str, trials: Sequence[Trial]) -> dict[str, Verdict]:
    """Try each configuration on the kubelet of one minor and return the verdicts by the trials' ids.

    Kubelet and trials travel to the node in one stream. The node's own kubelet is stopped.
    """
    with tempfile.TemporaryFile() as cargo:
        _pack(cargo, build(minor), trials)
        cargo.seek(0)
        with step(f"try {len(trials)} configurations on kubelet {minor} in {node.name}"):
            done = subprocess.run(
                [*node.ssh_arguments(), _RECEIVE], stdin=cargo, capture_output=True, text=True, check=False
            )
    if done.returncode != 0:
        raise LabError(f"kubelet {minor} cannot be judged: {done.stderr.strip()}", where=node.name)
    first, *rest = (json.loads(line) for line in done.stdout.splitlines())
    if first["version"] != f"Kubernetes v{version(minor)}":
        raise LabError(f"the kubelet says {first['version']}, not {version(minor)}", where=node.name)
    return {document.pop("id"): Verdict(**document) for document in rest}


def _pack(cargo: IO[bytes], kubelet: Path, trials: Sequence[Trial]) -> None:
    files = {
        "cases.json": json.dumps([asdict(trial) for trial in trials]).encode(),
        "judge.py": program_source([Path(last_words.__file__), LAB / "judge.py"]).encode(),
    }
    with tarfile.open(fileobj=cargo, mode="w") as tar:
        tar.add(kubelet, arcname="kubelet")
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
