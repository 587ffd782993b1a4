"""Write roles/node.pyi, the types that roles make together, spelt out: `python -m docs.node_types`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from numaforge.roles import ROLES

STUB = Path(__file__).parent.parent / "roles" / "node.pyi"
_HEAD = """\
# Written by `python -m docs.node_types` from ROLES; roles/node.py makes the same types at run time.
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numaforge.file_content import PlannedFile
from numaforge.reasons import Decision, Notice
{imports}
from numaforge.sections.section import Section

class ProfileHead(Section):
    name: str = ...
    description: str = ...
    sources: dict[str, str] = ...
    def choice(self, path: str, said: str = ...) -> str: ...

class NodeProfile(ProfileHead):
{keys}

@dataclass(frozen=True, kw_only=True)
class PlanHead:
    hostname: str
    profile: str
    files: tuple[PlannedFile, ...]
    decisions: tuple[Decision, ...]
    notices: tuple[Notice, ...]

@dataclass(frozen=True, kw_only=True)
class NodePlan(
    PlanHead,
{plans}
): ...

class Decisions(NodePlan):
    values: Mapping[str, Any]
    asked_version: str | None
    sysctls: Mapping[str, str]
    @property
    def previous(self) -> NodePlan | None: ...
    @property
    def unreadable(self) -> Notice | None: ...
    def __init__(
        self,
        values: Mapping[str, Any],
        earlier: str | None,
        asked_version: str | None,
        profile: str = ...,
        sysctls: Mapping[str, str] | None = ...,
    ) -> None: ...
"""


def stub() -> str:
    """Return the text of the stub."""
    sections = [(role.name, role.section.KEY) for role in ROLES if role.section]
    plans = [role.name for role in ROLES if role.plan]
    modules = sorted(
        [f"{name}.section" for name, key in sections if not _is_word(key.holds)]
        + [f"{name}.plan" for name in plans],
    )
    lines = (
        f"from numaforge.roles.{module.rpartition('.')[0]} import {_alias(module)}" for module in modules
    )
    keys = (f"    {key.name}: {_type(name, key.holds)} = ..." for name, key in sections)
    return _HEAD.format(
        imports="\n".join(lines),
        keys="\n".join(keys),
        plans="\n".join(f"    {name}_plan.Decided," for name in plans),
    )


def _alias(module: str) -> str:
    folder, _, kind = module.rpartition(".")
    return f"{kind} as {folder}_{kind}"


def _is_word(holds: Any) -> bool:
    return get_origin(holds) is Union and get_origin(get_args(holds)[0]) is Literal


def _type(role: str, holds: Any) -> str:
    if _is_word(holds):
        words, _ = get_args(holds)  # some words, or None
        return f"Literal[{', '.join(json.dumps(word) for word in get_args(words))}] | None"
    holds = getattr(holds, "__origin__", holds) if hasattr(holds, "__metadata__") else holds  # of Annotated
    text = holds.__qualname__ if isinstance(holds, type) and not hasattr(holds, "__args__") else repr(holds)
    place = f"numaforge.roles.{role}.section."
    return text.replace(place, f"{role}_section.") if place in text else f"{role}_section.{text}"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
