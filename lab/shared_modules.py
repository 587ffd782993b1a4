"""Make the lab's components share the modules of Kubernetes, so that each is compiled once.

Programs of other projects ask for other releases of the same modules, which are then compiled again: the
client of Kubernetes, gRPC, OpenTelemetry. `python -m lab.shared_modules` writes `replace` lines into their
module files, with the versions that Kubernetes is released with. Run it after a change of any of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab import gobuild
from lab.errors import LabError
from lab.gobuild import Component

SHARING = (gobuild.CONTAINERD, gobuild.ETCD, gobuild.KWOK)
"""The components that share; the others are small."""


def main() -> None:
    """Rewrite the module files."""
    kubernetes = dict(_built_from(gobuild.KUBERNETES.folder))
    for component in SHARING:
        align(component, kubernetes)


def align(component: Component, kubernetes: dict[str, str]) -> None:
    """Replace what a component asks for by what Kubernetes has of it."""
    folder = component.folder
    for each in json.loads(_go(folder, "mod", "edit", "-json"))["Replace"] or ():
        _go(folder, "mod", "edit", f"-dropreplace={each['Old']['Path']}")
    own = dict(_built_from(folder))
    others = {
        path: kubernetes[path]
        for path in own
        if kubernetes.get(path, own[path]) != own[path] and not path.startswith(project(component))
    }
    _go(folder, "mod", "edit", *(f"-replace={path}={path}@{version}" for path, version in others.items()))
    _go(folder, "list", "-deps", "tool")  # completes go.mod, for which it reads those of all modules
    (folder / "go.sum").unlink()
    _go(folder, "list", "-deps", "tool")  # notes the checksums of what a build reads, and of nothing else


def project(component: Component) -> str:
    """Return how modules of a component's own project begin: these go with its own releases."""
    return "/".join(component.programs[0][1].split("/")[:2]) + "/"


def _built_from(folder: Path) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as name:
        for file in ("go.mod", "go.sum"):  # checksums are added to that are of no use for a build
            shutil.copy(folder / file, name)
        text = _go(Path(name), "list", "-m", "-json", "all").strip()
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        module: dict[str, Any]
        module, at = decoder.raw_decode(text, at)
        at += len(text[at:]) - len(text[at:].lstrip())
        used = module.get("Replace", module)
        if "Version" in used:
            yield module["Path"], used["Version"]


def _go(folder: Path, *arguments: str) -> str:
    environment = os.environ | {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    done = subprocess.run(
        [gobuild.go(), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LabError(f"go {arguments[0]} failed:\n{done.stderr[-4000:]}", where=str(folder))
    return done.stdout


if __name__ == "__main__":
    main()
