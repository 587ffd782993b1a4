"""Build the fake libnvidia-ml.so.1, once for each state of its sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent
LIBRARY = "libnvidia-ml.so.1"


def build(*flags: str) -> Path:
    """Return the folder that holds the library; skip where there is no compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    contents = b"".join(source.read_bytes() for source in sorted(SOURCES.glob("*.[ch]")))
    digest = hashlib.sha256(contents + " ".join(flags).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"numaforge-fake-nvml-{os.getuid()}-{digest}"
    library = folder / LIBRARY
    if not library.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        unfinished = folder / f"{LIBRARY}.{os.getpid()}"
        compiler = ["gcc", "-shared", "-fPIC", "-std=c11", "-Wall", "-Wextra", "-Werror", *flags]
        linked = [f"-Wl,-soname,{LIBRARY}", "-o", str(unfinished), *map(str, SOURCES.glob("*.c"))]
        subprocess.run([*compiler, *linked], check=True)
        unfinished.rename(library)
    return folder
