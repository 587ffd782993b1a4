"""Evidence of pods on a node, independent of the state of its kubelet's unit."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, replace

from numaforge.machine.snapshot.catalogue import ROOT_DIRS
from numaforge.machine.topology.model import KubeletInstall


@dataclass(frozen=True)
class Pods:
    """Evidence of pods on a node, each a few words that a message can end with.

    `alive` are some of the processes of pods. `left` are folders of pods: where no process is alive, those of
    pods that the kubelet starts again when it starts. `kubelets` may start pods at any moment. `unknown` says
    what could not be examined: missing evidence then proves nothing. `kubelet_down` is the evidence that no
    kubelet runs, which alone ends pods; "" where there is none.
    """

    alive: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    kubelets: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    kubelet_down: str = ""

    @property
    def may_run(self) -> bool:
        """Whether a pod runs; unknown counts as yes."""
        return bool(self.alive or self.unknown)

    @property
    def may_be_there(self) -> bool:
        """Whether a pod runs, or the kubelet may start one."""
        return bool(self.alive or self.left or self.kubelets or self.unknown)

    @property
    def evidence(self) -> str:
        return "; ".join((*self.alive, *self.unknown))

    def with_kubelet(self, why: str) -> Pods:
        """Return the evidence with one more kubelet that may start pods."""
        return replace(self, kubelets=(*self.kubelets, why))

    def without_kubelet(self, why: str) -> Pods:
        """Return the evidence with the reason why no kubelet runs, unless one may have been overlooked."""
        return self if self.kubelets or self.unknown else replace(self, kubelet_down=why)


NOT_LOOKED_AT = Pods(unknown=("the node was not looked at",))


def root_dirs(install: KubeletInstall | None, planned: str | None) -> tuple[str, ...]:
    """Return the folders below which kubelets keep their pods: this one's, and those of others."""
    own_roots = (install.root_dir if install else None, planned)
    return tuple(dict.fromkeys(posixpath.normpath(root) for root in (*own_roots, *ROOT_DIRS) if root))


def read_pods(lines: Iterable[str]) -> Pods:
    """Read what `tell_pods` in pods.sh printed."""
    by_kind: dict[str, list[str]] = {kind: [] for kind in ("alive", "left", "kubelet", "unknown")}
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind in ("alive", "kubelet"):
            pid, name, *more = rest.split(" ", 2)
            rest = " ".join((f"process {pid} ({name})", *more))
        if kind in by_kind:
            by_kind[kind].append(rest)
    alive, leftover, kubelets, unknown = map(tuple, by_kind.values())
    return Pods(alive, leftover, kubelets, unknown)
