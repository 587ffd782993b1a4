"""Start the numaforge that is packed in this file; under the name `pyinfra`, its pyinfra.

The packages are unpacked once, below $XDG_CACHE_HOME: compiled ones cannot be imported from an archive, and
the processes that numaforge starts need a Python that finds them.
"""

import json
import os
import platform
import shutil
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

_PROGRAM = """#!{python}
import sys
from {module} import main
sys.exit(main())
"""
_PROGRAMS = {"numaforge": "numaforge.__main__", "pyinfra": "pyinfra_cli.main"}


def main() -> None:
    """Unpack what is not unpacked yet, and become the program."""
    with zipfile.ZipFile(sys.argv[0]) as archive:
        built = json.loads(archive.read("built.json"))
        here = {"python": sys.implementation.cache_tag, "machine": platform.machine()}
        if any(built[key] != value for key, value in here.items()):
            sys.exit(
                f"{sys.argv[0]}: built for {built['python']} on {built['machine']}, "
                f"this is {here['python']} on {here['machine']}\n"
                "  take the file that was built for it, or install numaforge with pipx"
            )
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        place = cache / "numaforge" / f"{built['digest']}-{here['python']}"
        if not place.exists():
            unpack(archive, place)
    program = "pyinfra" if Path(sys.argv[0]).name.startswith("pyinfra") else "numaforge"
    path = os.pathsep.join([str(place / "bin"), os.environ.get("PATH", os.defpath)])
    python = str(place / "bin/python")
    arguments = [python, str(place / "bin" / program), *sys.argv[1:]]
    os.execve(python, arguments, {**os.environ, "PATH": path})  # noqa: S606 (the caller's arguments)


def unpack(archive: zipfile.ZipFile, place: Path) -> None:
    """Make a virtual environment with the packages; one that was broken off is not taken for one."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        venv.create(staged, symlinks=True)
        packages = next(staged.glob("lib/python*/site-packages"))
        inside = "site-packages/"
        for name in archive.namelist():
            if name.startswith(inside):
                file = packages / name.removeprefix(inside)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.read(name))
        for program, module in _PROGRAMS.items():
            file = staged / "bin" / program
            file.write_text(_PROGRAM.format(python=place / "bin/python", module=module), encoding="utf-8")
            file.chmod(0o755)
        try:
            staged.rename(place)
        except OSError:
            if not place.exists():  # else another process was faster
                raise
    finally:
        shutil.rmtree(staged, ignore_errors=True)


if __name__ == "__main__":
    main()
