"""The contract of a role: one concern of a node, and everything about it in one folder.

    section.py    what a profile may say of it: pydantic models, and SECTION
    plan.py       how it is decided: its frozen plan, and decide(); pure
    files.py      what it writes on the host
    part.py       how a node keeps, applies, proves and undoes it, with part.sh
    promises.py   what verification holds the live node to

A role has those that it needs. Nothing outside of the folder names the role but ROLES and the deploys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from numaforge.planning.contract import PlanModule
    from numaforge.profile.contract import SectionModule
    from numaforge.render.contract import FilesModule
    from numaforge.verification.promise import PromisesModule

    from numaforge.node.part import PartModule


@dataclass(frozen=True)
class Called:
    """What a deploy calls for by this name: the roles that are `called` so, in the maintenance that is open.

    `title` is what pyinfra shows.
    """

    called: str
    title: str

    def __call__(self, **arguments: Any) -> None:
        """Have it carried out on the host of the deploy; `arguments` are pyinfra's own."""
        from numaforge.roles.maintenance import take_part  # pyinfra is for deploys alone

        take_part(self, **arguments)


@dataclass(frozen=True)
class Role(Called):
    """One concern of a node: `package` is its folder. Its modules are imported where they are needed."""

    package: str

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.package.rpartition(".")[2]

    @cached_property
    def section(self) -> SectionModule | None:
        """What a profile may say of it; None where a profile says nothing."""
        return cast("SectionModule | None", self._module("section"))

    @cached_property
    def plan(self) -> PlanModule | None:
        """How it is decided; None where nothing is."""
        return cast("PlanModule | None", self._module("plan"))

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

    def _module(self, name: str) -> object | None:
        dotted = f"{self.package}.{name}"
        return import_module(dotted) if find_spec(dotted) else None


def role(package: str, title: str, called: str | None = None) -> Role:
    """Return the role of a folder, by its package; `called` is its name in deploys, where it has another."""
    return Role(called or package.rpartition(".")[2], title, package)
