"""What the recorders share: a checkout's version, its own Go code, and how records are written."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NVML_PROBE = (
    "from numaforge.machine.snapshot import nvml_probe\nimport pynvml\npynvml.nvmlShutdown()\n"
    "answer(nvml_probe.answers(pynvml))"
)


def version_of(
    checkout: Path, name: str, release: str = r"^VERSION \?= (\S+)", file: str = "versions.mk"
) -> str:
    """Return the release that a checkout leads to, and its commit."""
    command = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True, timeout=60)
    found = re.search(release, (checkout / file).read_text(encoding="utf-8"), re.MULTILINE)
    return f"{name} {found[1] if found else '?'} {commit.stdout.strip()}"


def answers_in(checkout: Path, package: str, program: Path, questions: Sequence[Any]) -> list[Any]:
    """Return what a Go test that is put into a package of a checkout answers."""
    with tempfile.TemporaryDirectory() as made:
        folder, test = Path(made), checkout / package / "numaforge_recorded_test.go"
        (folder / "questions").write_text(json.dumps(questions), encoding="utf-8")
        shutil.copy(program, test)
        files = {"QUESTIONS": str(folder / "questions"), "ANSWERS": str(folder / "answers")}
        command = ["go", "test", "-mod=vendor", "-run", "TestRecorded", f"./{package}"]
        try:
            subprocess.run(command, cwd=checkout, env={**os.environ, **files}, check=True, timeout=1800)
        finally:
            test.unlink()
        answers: list[Any] = json.loads((folder / "answers").read_text(encoding="utf-8"))
        return answers


def text_of(record: Any, *spread: str) -> str:
    """Return a record as JSON, with a line for each entry of itself and of what these names have."""
    return "{\n " + ",\n ".join(_entries(record, spread, 1)) + "\n}\n"


def _entries(value: Any, spread: Sequence[str], depth: int) -> list[str]:
    named = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    return [
        ("" if name is None else f"{json.dumps(name)}: ") + _value(each, spread, depth, name in spread)
        for name, each in named
    ]


def _value(value: Any, spread: Sequence[str], depth: int, apart: bool) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value)
    start, end = "{}" if isinstance(value, dict) else "[]"
    line = "\n" + " " * (depth + 1) if apart else ""
    return start + line + f",{line or ' '}".join(_entries(value, spread, depth + apart)) + end
