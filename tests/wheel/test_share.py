"""What the wheel has for share/: the man page, the completion of three shells and the role for Ansible."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.shared_files import COMPLETIONS, FOLDER, texts
from lab.paths import REPOSITORY


@pytest.mark.parametrize(("path", "text"), texts().items(), ids=list(texts()))
def test_shared_files_match_the_command_line(path: str, text: str) -> None:
    assert (FOLDER / path).read_text() == text, "run python -m docs.shared_files"


def test_wheel_installs_every_shared_file(venv: Path) -> None:
    role = REPOSITORY / "packaging" / "ansible"
    shared = {f"share/{file.relative_to(FOLDER)}" for file in FOLDER.rglob("*") if file.is_file()}
    shared |= {f"share/ansible/roles/{file.relative_to(role)}" for file in role.rglob("*.yml")}
    assert len(shared) == 8
    assert [path for path in sorted(shared) if not (venv / path).is_file()] == []


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_shows_the_page_without_a_warning(venv: Path) -> None:
    shown = subprocess.run(
        ["man", "--warnings", "-l", str(venv / "share/man/man1/numaforge.1")],
        env={"PATH": os.defpath, "MANPAGER": "cat", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert shown.stderr == ""
    assert "numaforge apply [OPTIONS] INVENTORY" in shown.stdout
    assert "--retry-failed" in shown.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_a_command_by_the_installed_script(venv: Path) -> None:
    words = "COMP_WORDS=(numaforge apply --dr) COMP_CWORD=2; _numaforge_completion numaforge"
    script = f"source '{venv}/share/{COMPLETIONS['bash']}'; {words}; echo \"${{COMPREPLY[@]}}\""
    path = f"{venv / 'bin'}:{os.defpath}"
    completed = subprocess.run(
        ["bash", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=True, timeout=60
    )
    assert completed.stdout == "--dry\n"
