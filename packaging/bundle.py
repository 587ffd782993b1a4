"""Write numaforge with everything that it needs as one file: `python packaging/bundle.py FILE.pyz [VENV]`.

VENV is a virtual environment in which numaforge is installed; without it one is made of this checkout. The
file needs no pip and no network, and runs with the same minor of Python on the same kind of machine: several
of the packages are compiled. The same packages are the same file, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "src/numaforge/requirements.lock"
MAIN = Path(__file__).with_name("bundle_main.py")
_LEFT_OUT = {"__pycache__", "pip", "setuptools"}
_OF_AN_INSTALLATION = {"RECORD", "direct_url.json"}
"""Files of a package's metadata that name the folder where it was installed, and from where."""
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
        left_out = _LEFT_OUT & {*parts} or path.name in _OF_AN_INSTALLATION
        if path.is_file() and not left_out and not parts[0].startswith(("pip-", "setuptools-")):
            yield path


def install(wheel: Path, venv: Path) -> None:
    """Install a wheel in a virtual environment of its own, with what LOCK names, and nothing but that.

    pip refuses a file whose checksum LOCK does not have, and a wheel that needs more than LOCK names.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(venv), "--quiet", "--disable-pip-version-check"]
    alone = [*pip, "install", "--no-deps"]
    subprocess.run([*alone, "--require-hashes", "--requirement", str(LOCK)], check=True)
    subprocess.run([*alone, "--no-index", str(wheel)], check=True)
    subprocess.run([*pip, "check"], check=True)


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build the "wheel" or the "sdist" of a checkout in a folder."""
    target = ("--target", kind, "--directory", str(folder))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *target],
        cwd=source,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def main(target: Path, venv: Path | None = None) -> None:
    """Write the bundle of a virtual environment, or of this checkout."""
    with tempfile.TemporaryDirectory() as scratch:
        if venv is None:
            venv = Path(scratch, "venv")
            install(build("wheel", ROOT, Path(scratch, "wheel")), venv)
        write_bundle(venv, target)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
