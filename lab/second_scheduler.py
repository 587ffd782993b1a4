"""scheduler-plugins beside a control plane's own scheduler, built from clones that the user names.

Nothing of its source is kept here. It is run as it is, on the Kubernetes minor that its module file requires.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from lab import cache, gobuild, kubelets
from lab.controlplane import ControlPlane
from lab.errors import LabError
from lab.process import Daemon

CLONES = "NUMAFORGE_SCHEDULER_PLUGINS"
"""Names a clone of scheduler-plugins, and after colons those of modules that a module proxy does not have."""
NAME = "scheduler-plugins-scheduler"
"""The schedulerName of pods, as in the project's chart."""
PLUGINS = ("Coscheduling", "NodeResourceTopologyMatch")
DEFINITIONS = ("manifests/coscheduling/crd.yaml", "manifests/noderesourcetopology/crd.yaml")
_PROGRAM, _PACKAGE = "second-scheduler", "./cmd/scheduler"


@dataclass(frozen=True)
class Clones:
    """A clone of scheduler-plugins, and clones that stand for modules which it requires."""

    plugins: Path
    modules: tuple[Path, ...] = ()

    @classmethod
    def named(cls) -> Self | None:
        """Return those that the environment names; raise LabError for a folder without a module file."""
        paths = [Path(each).absolute() for each in os.environ.get(CLONES, "").split(os.pathsep) if each]
        for path in paths:
            if not (path / "go.mod").is_file():
                raise LabError("has no go.mod", where=str(path), remedy=f"name clones in {CLONES}")
        return cls(paths[0], tuple(paths[1:])) if paths else None

    @property
    def commit(self) -> str:
        """The commit that is checked out."""
        asked = ("git", "-C", str(self.plugins), "rev-parse", "HEAD")
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    @property
    def definitions(self) -> list[Path]:
        """The files with the schemas of its objects."""
        return [self.plugins / each for each in DEFINITIONS]

    def component(self) -> gobuild.Component:
        """Return what builds it: its own module file, with the lab's release of the same Kubernetes minor."""
        texts = self.module_files()
        key = cache.digest([text for each in texts.items() for text in each])
        modules = cache.obtain(f"{_PROGRAM}-modules", key, lambda folder: self._complete(folder, texts))
        return gobuild.Component(
            _PROGRAM,
            ((_PROGRAM, _PACKAGE),),
            version_module="k8s.io/kubernetes",
            sources=str(self.plugins),
            modules=str(modules),
        )

    def _complete(self, folder: Path, texts: dict[str, str]) -> None:
        """Write the module files, with the checksums of modules that no module file of the lab has."""
        for name, text in texts.items():
            (folder / name).write_text(text)
        gobuild.run_go(self.plugins, "list", "-deps", "-mod=mod", f"-modfile={folder / 'go.mod'}", _PACKAGE)

    def module_files(self) -> dict[str, str]:
        """Return the texts of go.mod and go.sum."""
        text = (self.plugins / "go.mod").read_text()
        found = re.search(r"^\s*k8s\.io/kubernetes v(1\.(\d+))\.", text, re.MULTILINE)
        if found is None:
            raise LabError("requires no k8s.io/kubernetes", where=str(self.plugins / "go.mod"))
        minor, number = found.groups()
        sums = set((self.plugins / "go.sum").read_text().splitlines())
        if minor in kubelets.MINORS:
            kubelet = kubelets.component(minor)
            patch = gobuild.version(kubelet).rpartition(".")[2]
            text = re.sub(rf"(k8s\.io/\S+ v[01]\.{number})\.\d+", rf"\1.{patch}", text)
            sums |= set(kubelet.module_file.with_name("go.sum").read_text().splitlines())
        for each in self.modules:
            text += f"\nreplace {_module_of(each)} => {each}\n"
        return {"go.mod": text, "go.sum": "\n".join(sorted(sums)) + "\n"}


class SecondScheduler:
    """The scheduler beside that of a control plane, with the administrator's rights; a context manager."""

    def __init__(self, control_plane: ControlPlane, program: Path) -> None:
        self._control_plane = control_plane
        self._program = program

    @property
    def _daemon(self) -> Daemon:
        return Daemon(_PROGRAM, self._control_plane.state)

    def __enter__(self) -> Self:
        file = self._control_plane.state / f"{_PROGRAM}.json"
        file.write_text(json.dumps(configuration(self._control_plane.kubeconfig)))
        self._daemon.start([str(self._program), f"--config={file}", "--secure-port=0", "-v=2"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._daemon.stop()

    def require_alive(self) -> None:
        """Raise with the end of its log when it has ended."""
        self._daemon.require_alive()


def build(clones: Clones) -> Path:
    """Return the program."""
    return gobuild.build(clones.component()) / _PROGRAM


def configuration(kubeconfig: Path) -> dict[str, object]:
    """Return its KubeSchedulerConfiguration: what the chart writes for these plugins."""
    plugins = {
        "multiPoint": {
            "enabled": [{"name": name} for name in PLUGINS],
            "disabled": [{"name": "PrioritySort"}],
        }
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 1000},
        "profiles": [{"schedulerName": NAME, "plugins": plugins}],
    }


def _module_of(clone: Path) -> str:
    found = re.search(r"^module (\S+)", (clone / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LabError("names no module", where=str(clone / "go.mod"))
    return found.group(1)
