"""The README's first screen works as it is pasted, in a clone of the repository and then in any folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import REPOSITORY

_BLOCK = re.compile(r"(?:^    \S.*\n)+", re.MULTILINE)


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    """The commands of "A first look", a text per block."""
    section = (REPOSITORY / "README.md").read_text().partition("## A first look\n")[2].partition("\n## ")[0]
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in _BLOCK.findall(section)]


@pytest.mark.long
def test_the_first_screen_works_as_pasted(blocks: list[str], tmp_path: Path) -> None:
    install, look = blocks
    python = Path(sys.executable).resolve().parent  # the system's own may be older than what is asked for
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        ["sh", "-ec", f"{install}\ncd {elsewhere}\n{look}"],
        cwd=REPOSITORY,
        env={
            "HOME": str(tmp_path),
            "PATH": f"{python}:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "PIP_COMPILE": "0",  # what is run is compiled when it is; most of what is installed is not
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in elsewhere.iterdir()] == ["node.svg"]
    assert "<svg" in (elsewhere / "node.svg").read_text()
