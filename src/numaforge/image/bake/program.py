"""numaforge as installed in an image: its packages for the image's Python, without pip there."""

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

from numaforge import __version__
from numaforge.lib.errors import HostError

HOME = "/opt/numaforge"
_PROGRAM = f"""#!{{python}} -B
# Written by numaforge {{version}}: the packages are those of {{digest}}.
import sys

sys.path.insert(0, "{HOME}/lib")
from numaforge.cli import main

main()
"""
LOCK = Path(__file__).parents[2] / "requirements.lock"
"""What a release was made with: each package with its version and the checksums of all of its files."""
_PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "linux")
_LEFT_OUT = ("__pycache__", ".pyc")
_OLDEST = (3, 11)
OLDEST_PYTHON = ".".join(map(str, _OLDEST))


@cache
def digest(python: str, machine: str) -> str:
    """Return the digest of what `packages` packs: all versions, and the content of our own files."""
    digest = hashlib.sha256(f"{python} {machine} {__version__}\n".encode())
    for name, version in sorted(libraries().items()):
        digest.update(f"{name} {version}\n".encode())
    for name, file in _own_files():
        digest.update(f"{name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def program(digest: str, python: str) -> str:
    """Return the text of /opt/numaforge/numaforge in an image."""
    return _PROGRAM.format(version=__version__, digest=digest, python=python)


def is_new_enough(python: str) -> bool:
    """Whether numaforge runs with a Python such as "3.12"."""
    return tuple(int(number) for number in python.split(".") if number.isdecimal()) >= _OLDEST


def packages(python: str, machine: str) -> bytes:
    """Return an archive of all packages for a Python ("3.12") on a machine ("x86_64"), which pip fetches."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "numaforge" / "image"
    cached = cache / f"{digest(python, machine)}.tar.gz"
    if not cached.exists():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            folder = Path(scratch, "lib")
            _fetch(folder, python, machine)
            new = Path(scratch, "new")
            new.write_bytes(_packed(folder))
            new.replace(cached)
    return cached.read_bytes()


def _fetch(folder: Path, python: str, machine: str) -> None:
    platforms = [word for platform in _PLATFORMS for word in ("--platform", f"{platform}_{machine}")]
    kind = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *platforms]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    locked = ["--no-deps", "--require-hashes", "--requirement", str(LOCK)]
    command = [*pip, "install", "--no-compile", "--target", str(folder), *kind, *locked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(
            f"pip cannot fetch what numaforge needs for Python {python} on {machine}: "
            f"{done.stderr.strip()[-500:]}",
            remedy="pip needs its index; PIP_INDEX_URL or pip.conf name another one",
        )


def _packed(folder: Path) -> bytes:
    """Pack third-party packages and our own, reproducibly."""
    third_party = ((str(file.relative_to(folder)), file) for file in folder.rglob("*") if file.is_file())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for name, file in sorted([*third_party, *_own_files()]):
            if not any(part.endswith(_LEFT_OUT) for part in Path(name).parts) and not name.startswith("bin/"):
                entry = tarfile.TarInfo(f"lib/{name}")
                entry.size, entry.mode = file.stat().st_size, 0o644
                with file.open("rb") as content:
                    archive.addfile(entry, content)
    return buffer.getvalue()


def _own_files() -> Iterator[tuple[str, Path]]:
    """Yield our files with their names in site-packages; a checkout has some of them behind links."""
    package = Path(__file__).parents[2]
    for folder, names, files in os.walk(package, followlinks=True):
        names[:] = sorted(name for name in names if name not in _LEFT_OUT)
        for name in sorted(files):
            file = Path(folder, name)
            if file.suffix != ".pyc":
                yield f"numaforge/{file.relative_to(package)}", file
    # a checkout may have been installed at another version
    metadata = next(file for file in distribution("numaforge").files or () if file.name == "METADATA")
    yield f"numaforge-{__version__}.dist-info/METADATA", Path(str(metadata.locate()))


@cache
def libraries() -> dict[str, str]:
    """Return the third-party packages that numaforge needs, with the versions of the release."""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE))
