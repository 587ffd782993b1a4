"""The contract of a role: one concern of a node, and everything about it in one folder.

    section.py    what a profile may say of it: pydantic models, a field of roles/profile.py
    plan.py       how it is decided: its frozen plan, a field of roles/node.py, and the function that
                  planning/node.py calls; pure
    files.py      what it writes on the host; listed in planning/files.py
    promises.py   what verification holds the live node to, with probe.sh where it asks for more than files
    watched.py    what the node compares with its plan by itself, and its metrics
    drift.py      what an audit compares with the plan that is saved on a machine
    part.py       how a node keeps, applies, proves and undoes it, with part.sh; at_boot.sh is for its unit

A role has those that it needs. The last four are found through ROLES.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numaforge.file_content import PlannedFile
    from numaforge.findings.drift import DriftRule
    from numaforge.maintenance.part import PartModule
    from numaforge.roles.node import NodePlan
    from numaforge.template import Template
    from numaforge.topology.model import NodeTopology
    from numaforge.verification.promise import Promise
    from numaforge.watched import Compared, Family


ALWAYS = ("topology",)
"""What a deploy calls before all others."""


class FilesModule(Protocol):
    """files.py: `TEMPLATES` has each template, and how its text is read back.

    It may have more: text() and read_back(), for a file without a template; others(plan, config_text) ->
    files, those that are written beside the plan's; on_node(goal, found, files, absent) -> (files, absent),
    what counts on a node as it is.
    """

    @property
    def TEMPLATES(self) -> Mapping[str, Template]:  # noqa: N802 (a module's constant)
        """Return each template, and how its text is read back."""

    def files(self, plan: NodePlan) -> Sequence[PlannedFile]:
        """Return the files that a plan has written; none for what it leaves alone."""

    def paths(self, plan: NodePlan, machine: NodeTopology) -> Sequence[str]:
        """Return every path that may hold a file of the role: one that no plan wants there goes."""


class PromisesModule(Protocol):
    """promises.py."""

    PROMISES: tuple[Promise, ...]


class WatchedModule(Protocol):
    """watched.py: it has one of these functions, or both."""

    def compared(self, plan: NodePlan) -> Iterable[Compared]:
        """Return the files of the kernel that a node compares with its plan."""

    def families(self, plan: NodePlan) -> Iterable[Family]:
        """Return the metrics that a node exports."""


class DriftModule(Protocol):
    """drift.py."""

    DRIFT: tuple[DriftRule, ...]


@dataclass(frozen=True)
class Called:
    """What a deploy calls for by this name: the roles that are `called` so, in the maintenance that is open.

    `title` is what pyinfra shows.
    """

    called: str
    title: str

    def __call__(self, **arguments: Any) -> None:
        """Carry it out on the host of the deploy; `arguments` are pyinfra's own."""
        # by name: it imports pyinfra, which is for deploys; no role imports it
        import_module("numaforge.roles.maintenance").take_part(self, **arguments)


@dataclass(frozen=True)
class Role(Called):
    """One concern of a node: `package` is its folder. Its modules are imported where they are needed.

    It is carried out where a deploy calls it, or one of those that it `goes_with`.
    """

    package: str
    goes_with: tuple[str, ...] = ()

    def among(self, called: Collection[str]) -> bool:
        """Whether it is carried out where a deploy has called these."""
        return not {self.called, *self.goes_with}.isdisjoint(called)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.package.rpartition(".")[2]

    @cached_property
    def files(self) -> FilesModule | None:
        """What it writes; None for a role without files."""
        return cast("FilesModule | None", self._module("files"))

    @cached_property
    def part(self) -> PartModule | None:
        """How a node carries it out; None where nothing is done but files."""
        return cast("PartModule | None", self._module("part"))

    @cached_property
    def promises(self) -> PromisesModule | None:
        """What a live node is held to; None for a role that promises nothing."""
        return cast("PromisesModule | None", self._module("promises"))

    @cached_property
    def watched(self) -> WatchedModule | None:
        """What a node compares and exports by itself; None where there is nothing."""
        return cast("WatchedModule | None", self._module("watched"))

    @cached_property
    def drift(self) -> DriftModule | None:
        """What an audit compares with a saved plan; None where a snapshot has nothing of the role."""
        return cast("DriftModule | None", self._module("drift"))

    def _module(self, name: str) -> object | None:
        dotted = f"{self.package}.{name}"
        try:
            return import_module(dotted)
        except ModuleNotFoundError as error:
            if error.name != dotted:  # the module exists, but one of its imports does not
                raise
            return None


def role(package: str, title: str, called: str | None = None, goes_with: tuple[str, ...] = ()) -> Role:
    """Return the role of a folder, by its package; `called` is its name in deploys, where it has another."""
    return Role(called or package.rpartition(".")[2], title, package, goes_with)
