"""`deploys/bake.py` on the root of an image, by @chroot."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.paths import REPOSITORY

PROGRAMS = Path(sys.executable).parent

START = 'exec "$@"'


def bake(root: Path, wish: Mapping[str, object], start: str = START) -> subprocess.CompletedProcess[str]:
    file = root.with_name(f"{root.name}.yaml")
    file.write_text(json.dumps(wish))
    pyinfra = (str(PROGRAMS / "pyinfra"), "-y", f"@chroot/{root}", "deploys/bake.py")
    return subprocess.run(
        ["unshare", "--mount", "sh", "-euc", start, str(root), *pyinfra, "--data", f"numaforge_image={file}"],
        cwd=REPOSITORY,
        env={**os.environ, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )


def refused(root: Path, wish: Mapping[str, object]) -> str:
    """Return why a root cannot be baked."""
    return refusal(bake(root, wish))


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    return said
