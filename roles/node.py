"""A node as all of its roles see it: what a profile may say, what is decided, and its plan.

The types are made of what the roles have in their folders; node.pyi writes them out for programs that check
types (`python -m docs.node_types`).
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, Field, create_model

from numaforge.codec import NOTHING_ELSE
from numaforge.errors import PlanError
from numaforge.file_content import PLAN_PATH, PlannedFile
from numaforge.mistakes import shown
from numaforge.reasons import Decision, Notice
from numaforge.roles import ROLES
from numaforge.roles.role import Working
from numaforge.sections.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LONGEST_NAME = 255  # as for a file name, which names a profile without one


def _one_line(name: str) -> str:
    """Return a name that files and tables can carry."""
    if not name.strip():
        raise ValueError(f"{shown(name)} is no name; leave it out, and the file's counts")
    if not name.isprintable():
        raise ValueError(f"{shown(name)} is not printable, in one line")
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"{shown(name)} is longer than {_LONGEST_NAME} characters")
    return name


class ProfileHead(Section):
    """What a profile says of itself."""

    name: Annotated[str, AfterValidator(_one_line)] = Field(
        default="unnamed", description="The profile's name, which the plan carries.", examples=["h100-train"]
    )
    description: str = Field(
        default="", description="One sentence for people.", examples=["Whole-node training jobs"]
    )
    sources: dict[str, str] = Field(
        default_factory=dict,
        description="The sources of values, by dotted path; the plan's decisions show them.",
        examples=[{"tuning.sysctls.vm.swappiness": "ticket 4711"}],
    )

    def choice(self, path: str, said: str = "the profile's choice") -> str:
        """Return `said`, the reason for a value that this profile sets, with its source where it has one."""
        source = self.sources.get(path)
        return f"{said} ({source})" if source else said


@dataclass(frozen=True, kw_only=True)
class PlanHead:
    """What every plan has, whatever is decided."""

    hostname: str
    profile: str
    files: tuple[PlannedFile, ...]
    decisions: tuple[Decision, ...]
    notices: tuple[Notice, ...]


class Decisions:
    """What the roles before have decided, each field by its name; `previous` is the plan of an earlier run.

    `asked_version` is the kubelet's version where it differs from the host's, `profile` the profile's name,
    `sysctls` the values of those that roles name.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        earlier: str | None,
        asked_version: str | None,
        profile: str = "",
        sysctls: Mapping[str, str] | None = None,
    ) -> None:
        self.values = values
        self.sysctls = sysctls or {}
        self.profile = profile
        self.asked_version = asked_version
        self._earlier = earlier

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(f"no role before this one has decided {name}; see NEEDS") from None

    @property
    def previous(self) -> Any:
        """The plan that an earlier run left on the host; None where there is none, or it cannot be read."""
        return self._read[0]

    @property
    def unreadable(self) -> Notice | None:
        """The notice about an earlier plan that cannot be read."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Any, Notice | None]:
        from numaforge.roles.document import loads  # the document of the type that is made here

        if not self._earlier:
            return None, None
        try:
            return loads(self._earlier), None
        except PlanError as error:
            return None, Notice(
                "earlier-plan-unreadable",
                f"{PLAN_PATH} on the host cannot be read ({error.where}: {error.message}): what an "
                "earlier run merged into the kubelet's own file is taken for the admin's",
            )


def _plan_type() -> type[Any]:
    members = [
        *_members(PlanHead),
        *(member for role in ROLES if role.plan for member in _members(role.plan.Decided)),
    ]
    made = make_dataclass(
        "NodePlan",
        members,
        frozen=True,
        kw_only=True,
        namespace={
            "__doc__": "Everything decided for one host; templates and verification read nothing else.",
            "__pydantic_config__": NOTHING_ELSE,  # and so for what it holds
        },
    )
    made.__module__ = __name__
    return made


def _members(kind: type[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Return name, type and default of each field that the document has."""
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        hint = hints[each.name]
        if get_origin(hint) is Annotated and Working in get_args(hint):
            continue
        if each.default_factory is not MISSING:
            yield each.name, hint, field(default_factory=each.default_factory)
        elif each.default is not MISSING:
            yield each.name, hint, field(default=each.default)
        else:
            yield each.name, hint, field()


def _profile_type() -> type[Any]:
    keys = [role.section.KEY for role in ROLES if role.section]
    sections: dict[str, Any] = {
        key.name: (key.holds, Field(default=key.default, description=key.description)) for key in keys
    }
    return create_model(
        "NodeProfile",
        __base__=ProfileHead,
        __module__=__name__,
        __doc__="What an admin wants from a node; everything is optional.",
        **sections,
    )


def __getattr__(name: str) -> type[Any]:
    """Make a type on first use: reading a profile does not wait for the plan's type."""
    made = {"NodePlan": _plan_type, "NodeProfile": _profile_type}
    if name not in made:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, made[name]())
