"""What `make test` leaves out is in a part of `make test-all`, and the first variants of a test are not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import REPOSITORY

TESTS = REPOSITORY / "tests"
MAKEFILE = (REPOSITORY / "lab/lab.mk").read_text()
LEFT_OUT = re.compile(r"mark\.(?:long\b|variants\()")


def leaving_out() -> list[Path]:
    tests = sorted({*TESTS.rglob("test_*.py")} - {Path(__file__)})
    return [file for file in tests if LEFT_OUT.search(file.read_text())]


def parts_with(file: Path) -> list[str]:
    """Return the parts that run a file's long tests: by its name, or by the folder that it is in."""
    name = file.stem.removeprefix("test_")
    folders = "|".join(
        re.escape(str(each.relative_to(REPOSITORY))) for each in file.parents[:-1] if each > TESTS
    )
    return re.findall(rf"(?:\b(?:test_)?{name}\.py|(?:{folders or '-'})(?=\s|$))", recipes(), re.MULTILINE)


def recipes() -> str:
    return "\n".join(line for line in MAKEFILE.splitlines() if line.startswith("\t"))


@pytest.mark.parametrize("file", leaving_out(), ids=lambda file: str(file.relative_to(TESTS)))
def test_a_long_test_is_in_a_part(file: Path) -> None:
    assert parts_with(file)


def test_a_file_of_no_part_is_found() -> None:
    assert not parts_with(TESTS / "lab/test_nothing_like_it.py")


def test_every_part_is_run_with_all() -> None:
    (parts,) = re.findall(r"^PARTS := (.*)$", MAKEFILE, re.MULTILINE)
    targets = {*re.findall(r"^test-([\w-]+):", MAKEFILE, re.MULTILINE)} - {"all", "second-scheduler"}
    assert {*parts.split()} == targets


@pytest.mark.parametrize(("chosen", "found"), [("not long", 5), ("long", 3)])
def test_of_a_tests_variants_the_first_are_run(tmp_path: Path, chosen: str, found: int) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: x\n    variants(n): x\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.variants(2)\n"
        "@pytest.mark.parametrize('number', range(5))\ndef test_some(number): pass\n"
        "@pytest.mark.parametrize('number', range(3))\ndef test_all(number): pass\n"
    )
    collected = subprocess.run(
        [*(sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(tmp_path / "pytest.ini")),
         *("--collect-only", "-q", "-m", chosen, str(tmp_path))],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"{found}/8 tests collected" in collected.stdout
