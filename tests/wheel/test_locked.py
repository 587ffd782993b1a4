"""A release lists what its lock names, and nothing else."""

import json
import re

import pytest

from tests.fixtures.tables import cases
from tests.fixtures.wheel import LOCK, NotReadyError, refuse_unlocked


def materials(**changed: str) -> str:
    """Return an SBOM of what the lock names, with other versions; an empty one leaves a package out."""
    locked = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK.read_text(), re.MULTILINE))
    parts = [{"name": name, "version": version} for name, version in (locked | changed).items() if version]
    return json.dumps({"components": parts})


def test_release_that_matches_the_lock_is_published() -> None:
    refuse_unlocked(materials(), LOCK.read_text())


@cases(
    "changed, named",
    {
        "another version": ({"click": "0.1"}, "click 0.1, click "),
        "a package that the lock lacks": ({"extra": "1.0"}, "extra 1.0"),
        "a package that is not installed": ({"rich": ""}, "rich "),
    },
)
def test_sbom_that_differs_from_lock_is_refused(changed: dict[str, str], named: str) -> None:
    with pytest.raises(NotReadyError, match=f"the SBOM and requirements.lock differ in {named}"):
        refuse_unlocked(materials(**changed), LOCK.read_text())
