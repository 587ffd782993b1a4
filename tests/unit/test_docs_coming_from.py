"""The pages for those who come from other tools name keys of a profile that exist."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lab.paths import REPOSITORY
from numaforge.planning.json_schema import json_schema

PAGES = {
    name: (REPOSITORY / "docs" / name).read_text(encoding="utf-8")
    for name in ("from-ansible.md", "from-openshift.md")
}
SCHEMA = json_schema("profile")


def sections(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the sections that stand somewhere in what a key accepts."""
    if "$ref" in value:
        yield SCHEMA["$defs"][value["$ref"].rpartition("/")[2]]
    for below in (*value.get("anyOf", ()), value.get("items", {})):
        if below:
            yield from sections(below)


def exists(path: str) -> bool:
    """Say whether a profile has a key of this dotted path; names in mappings are free."""
    found: list[Mapping[str, Any]] = [SCHEMA]
    for name in path.split("."):
        values = [section["properties"][name] for section in found if name in section["properties"]]
        if not values:
            return False
        found = [section for value in values for section in sections(value)]
        if not found:
            return True
    return True


def keys(text: str) -> list[str]:
    """Return what reads as a key of a profile: a path in backquotes that begins with a section."""
    paths = re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?::[^`]*)?`", text)
    return [path for path in paths if path.split(".")[0] in SCHEMA["properties"]]


@pytest.mark.parametrize("name", PAGES)
def test_every_named_profile_key_exists(name: str) -> None:
    named = keys(re.sub(r"^\| `(hugepages|cpu|numa|net)\.[^|]*\|", "|", PAGES[name], flags=re.MULTILINE))
    assert len(named) > 10
    assert [path for path in named if not exists(path)] == []
