"""Write numaforge with everything that it needs as one file: `python packaging/bundle.py VENV FILE.pyz`.

VENV is a virtual environment in which numaforge is installed. The file needs no pip and no network, and runs
with the same minor of Python on the same kind of machine: several of the packages are compiled.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

MAIN = Path(__file__).with_name("bundle_main.py")
_LEFT_OUT = {"__pycache__", "pip", "setuptools"}
_SHEBANG = b"#!/usr/bin/env python3\n"
_TIME = (1980, 1, 1, 0, 0, 0)  # the same input is the same file


def write_bundle(venv: Path, target: Path) -> None:
    """Write the packages of a virtual environment and what starts them as one executable file."""
    packages = _site_packages(venv)
    files = sorted(_files(packages))
    digest = hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as raw:
        raw.write(_SHEBANG)
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                name, content = str(file.relative_to(packages)), file.read_bytes()
                digest.update(f"{name} {len(content)}\n".encode() + content)
                archive.writestr(
                    zipfile.ZipInfo(f"site-packages/{name}", _TIME), content, zipfile.ZIP_DEFLATED
                )
            built = {
                "python": sys.implementation.cache_tag,
                "machine": platform.machine(),
                "digest": digest.hexdigest()[:16],
            }
            archive.writestr(zipfile.ZipInfo("built.json", _TIME), json.dumps(built))
            archive.writestr(zipfile.ZipInfo("__main__.py", _TIME), MAIN.read_bytes())
    target.chmod(0o755)


def _site_packages(venv: Path) -> Path:
    asked = [str(venv / "bin/python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())


def _files(packages: Path) -> Iterator[Path]:
    for path in packages.rglob("*"):
        parts = path.relative_to(packages).parts
        if path.is_file() and not _LEFT_OUT & {*parts} and not parts[0].startswith(("pip-", "setuptools-")):
            yield path


if __name__ == "__main__":
    write_bundle(Path(sys.argv[1]), Path(sys.argv[2]))
