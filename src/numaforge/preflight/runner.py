"""What a run needs on the machine that starts it."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import numaforge
from numaforge.findings import Severity
from numaforge.preflight.checks import Check
from numaforge.verification import suite

_REINSTALL = "install numaforge again: README.md shows how"


def runner_checks() -> tuple[Check, ...]:
    """Check this machine: numaforge itself, pyinfra, the verification suite and ssh."""
    return _numaforge(), _pyinfra(), _pyinfra_program(), verification_check(), _ssh(), _known_hosts()


def verification_check() -> Check:
    """Check that the verification suite can run here, before a node is drained for nothing."""
    why = suite.why_unusable()
    if why is not None:
        return Check("verification suite", f"cannot run: {why}", Severity.ERROR, _REINSTALL)
    return Check("verification suite", f"runs with pytest {version('pytest')}")


def _numaforge() -> Check:
    python = ".".join(map(str, sys.version_info[:3]))
    package = Path(numaforge.__file__).parent
    return Check("numaforge", f"{numaforge.__version__} in {package}, Python {python}")


def _pyinfra() -> Check:
    try:
        return Check("pyinfra", version("pyinfra"))
    except PackageNotFoundError:
        return Check("pyinfra", "is not installed beside numaforge", Severity.ERROR, _REINSTALL)


def _pyinfra_program() -> Check:
    """Look for the program `pyinfra`: by default, pipx and uv put only numaforge's own on the PATH."""
    found = shutil.which("pyinfra")
    own = _own_programs()
    if found and any(Path(found).samefile(program) for program in own):
        return Check("program pyinfra", found)
    remedy = (
        "pipx install --include-deps numaforge, or uv tool install --with-executables-from pyinfra numaforge"
    )
    remedy += "".join(f"; {program} is the one that belongs to numaforge" for program in own[:1])
    what = f"{found} belongs to another Python" if found else "is not on the PATH"
    return Check("program pyinfra", what, Severity.WARNING, remedy)


def _own_programs() -> list[Path]:
    """Return the programs of the imported pyinfra: beside this Python, or where pip recorded them.

    `pip install --user` puts them below the user's folder, root's pip on Debian below /usr/local.
    """
    try:
        noted = distribution("pyinfra").files or ()
    except PackageNotFoundError:
        noted = ()
    beside = Path(sys.executable).with_name("pyinfra")
    places = (beside, *(Path(str(file.locate())) for file in noted if file.name == "pyinfra"))
    return [place for place in places if place.exists()]


def _ssh() -> Check:
    found = shutil.which("ssh")
    if found:
        return Check("program ssh", found)
    remedy = "install openssh-client: without it ssh_config is read without Include, Match and ProxyJump"
    return Check("program ssh", "is not on the PATH", Severity.WARNING, remedy)


def _known_hosts() -> Check:
    own = Path("~/.ssh/known_hosts").expanduser()
    if own.exists() and not os.access(own, os.R_OK):
        return Check("known_hosts", f"{own} cannot be read", Severity.ERROR, f"chmod u+r {own}")
    return Check("known_hosts", str(own) if own.exists() else f"there is no {own} yet")
