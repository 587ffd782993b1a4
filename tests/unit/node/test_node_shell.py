"""The shell that a node carries out: read by every shell that a host may have, and by shellcheck."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from numaforge.change.look import NodeQuery
from numaforge.change.parts import PARTS, refuse_incomplete
from numaforge.change.transaction import (
    Status,
    Transaction,
    confirm_script,
    node_script,
    process_script,
    revert_script,
    settle_script,
    start_script,
    status_script,
    void_script,
)
from numaforge.lib import shell
from numaforge.lib.errors import HostError

STATUS = Status("prove kubelet", False, None, "b", 5, "token")
NODE_SCRIPT = node_script(part.name for part in PARTS)
LOOK = NodeQuery(
    ("/sys/a",), ("/etc/b",), ("c",), (("kernel_values", "look_kernel_values", "/d"),), "/e", "u"
)
SCRIPTS = {
    "node": NODE_SCRIPT,
    "start": start_script(Transaction("T1")),
    "void": void_script("T1"),
    "revert": revert_script("T1", "why", STATUS),
    "confirm": confirm_script("T1", "token"),
    "settle": settle_script(),
    "status": status_script("T1"),
    "process": process_script("kubelet.service"),
    "look": LOOK.script,
}
PACKAGE = Path(shell.__file__).parents[1]
LIBRARIES = sorted(
    str(file.relative_to(PACKAGE).with_suffix(""))
    for file in [*PACKAGE.glob("node/*.sh"), *PACKAGE.glob("roles/**/*.sh")]
)
SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def test_part_is_not_composed_without_the_parts_it_calls() -> None:
    with pytest.raises(ValueError, match=r"the script of mig_mode lacks mig_prove$"):
        node_script(("mig_mode",))
    assert "mig_prove()" in node_script(("mig_mode", "mig"))


@pytest.mark.parametrize("verb", ["apply", "undo"])
def test_part_without_a_required_verb_is_not_composed(verb: str) -> None:
    refuse_incomplete(("files",), NODE_SCRIPT)
    with pytest.raises(ValueError, match=f"the script of files lacks files_{verb}"):
        refuse_incomplete(("files",), NODE_SCRIPT.replace(f"\nfiles_{verb}()", f"\nfiles_{verb}s()"))


@pytest.mark.parametrize("interpreter", ["dash", "busybox sh", "bash --posix"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_shell_parses_every_script(name: str, interpreter: str) -> None:
    done = subprocess.run(
        [*interpreter.split(), "-n"], input=SCRIPTS[name], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def unassigned(text: str) -> list[str]:
    """Return the variables that a file reads and no file of the node's assigns."""
    done = subprocess.run(
        [SHELLCHECK, "--norc", "-f", "json", "-s", "sh", "-i", "SC2154", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    read = {complaint["message"].split()[0] for complaint in json.loads(done.stdout)}
    # roles' programs are sent with it, too
    together = shell.library("lib/kernel_files", "lib/units") + NODE_SCRIPT
    return sorted(read - assigned(together) - assigned(text))


@cache
def assigned(text: str) -> set[str]:
    """Return the variables that a text assigns, `read` and `for` among what does."""
    named = re.finditer(r"(?=\b(?:read|for)\b([^;|]*))", text)
    return {*re.findall(r"(?:^|[\s;{])(\w+)=", text, re.MULTILINE)}.union(
        *(re.findall(r"\w+", each[1]) for each in named)
    )


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_variable_read_is_assigned(name: str) -> None:
    assert unassigned(shell.library(name)) == []


def test_misspelt_variable_is_found() -> None:
    assert unassigned(shell.library("node/lock").replace("$why", "$wy")) == ["wy"]


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("name", ["start", "void", "revert", "confirm", "settle"])
def test_truncated_script_starts_nothing(name: str, cut: float) -> None:
    whole = SCRIPTS[name]
    call = "numaforge_main || exit 1\n"
    assert call.strip() not in whole[: int(whole.index(call) * cut)]


def test_value_reaches_a_script_unchanged(tmp_path: Path) -> None:
    odd = 'a\'b "c" $(touch owned) `touch owned` \\ \n; d'
    text = (
        shell.assignments({"VALUE": odd})
        + 'show() { printf "%s|%s" "$VALUE" "$1"; }\n'
        + shell.call("show", [odd])
    )
    done = subprocess.run(["sh"], input=text, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == f"{odd}|{odd}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"], ids=["newline", "carriage-return", "nul"])
def test_multiline_value_is_refused_in_a_data_file(text: str) -> None:
    with pytest.raises(HostError, match="more than one line"):
        shell.line(text)
