"""Build the fake libnvidia-ml.so.1 and nvidia-smi, once for each state of their sources."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent
LIBRARY = "libnvidia-ml.so.1"
SMI = "nvidia-smi"
COMPILER = ("gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror")


def build(*flags: str) -> Path:
    """Return the folder that holds the library and nvidia-smi; skip where there is no compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    inputs = sorted([*SOURCES.glob("*.[ch]"), *SOURCES.glob("*.map")])
    contents = b"".join(source.read_bytes() for source in inputs)
    digest = hashlib.sha256(contents + " ".join((*COMPILER, *flags)).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"numaforge-fake-nvml-{os.getuid()}-{digest}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = [str(source) for source in sorted(SOURCES.glob("*.c")) if not source.name.startswith("smi")]
    exports = f"-Wl,-soname,{LIBRARY},--version-script={SOURCES / 'exports.map'}"
    _compile(folder / LIBRARY, *flags, "-shared", "-fPIC", exports, *library)
    _compile(folder / SMI, *flags, *map(str, SOURCES.glob("smi*.c")), *library)
    return folder


def _compile(target: Path, *arguments: str) -> None:
    if target.exists():
        return
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    subprocess.run([*COMPILER, "-o", str(unfinished), *arguments], check=True)
    unfinished.rename(target)
