"""The programs of bench/ find what they import: nothing else runs them."""

import subprocess
import sys

from lab.paths import REPOSITORY

PROGRAMS = sorted((REPOSITORY / "bench").rglob("*.py"))


def test_every_benchmark_can_be_imported():
    assert PROGRAMS
    names = [".".join(path.relative_to(REPOSITORY).with_suffix("").parts) for path in PROGRAMS]
    imports = "".join(f"import {name}\n" for name in names)
    done = subprocess.run(
        [sys.executable, "-c", imports], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
