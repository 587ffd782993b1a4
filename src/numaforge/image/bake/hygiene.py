"""Whether an image is fit for many machines: a test for each rule, run by `numaforge verify --image DIR`.

pytest runs this file with testinfra's chroot connection; the image needs sh, coreutils and sed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from numaforge.lib import shell
from numaforge.lib.file_content import WRITTEN_BELOW

RULES: dict[str, str] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def leftovers(host: Any) -> dict[str, list[str]]:
    """The violations, by rule."""
    library = shell.library(
        "roles/host/look", "roles/kernel_cmdline/look", "image/bake/packages", "image/bake/hygiene"
    )
    written = shell.assignments({"WRITTEN_BELOW": " ".join(WRITTEN_BELOW)})
    done = host.run("sh -c %s", written + library + "tell_leftovers")
    assert done.rc == 0, done.stderr
    violations: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        rule, _, violation = line.partition(" ")
        violations.setdefault(rule, []).append(violation)
    return violations


@pytest.mark.parametrize("rule", RULES)
def test_image(rule: str, leftovers: dict[str, list[str]]) -> None:
    violations = leftovers.get(rule, [])
    assert not violations, f"{RULES[rule]}: {', '.join(violations)}"
