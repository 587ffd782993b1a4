"""What a run needs on the machine that starts it."""

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import numaforge
from numaforge.findings import Severity
from numaforge.preflight import Check
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
    pyinfra = shutil.which("pyinfra")
    programs = _own_programs()
    if pyinfra and any(Path(pyinfra).samefile(program) for program in programs):
        return Check("program pyinfra", pyinfra)
    remedy = (
        "pipx install --include-deps numaforge, or uv tool install --with-executables-from pyinfra numaforge"
    )
    remedy += "".join(f"; {program} is the one that belongs to numaforge" for program in programs[:1])
    problem = f"{pyinfra} belongs to another Python" if pyinfra else "is not on the PATH"
    return Check("program pyinfra", problem, Severity.WARNING, remedy)


def _own_programs() -> list[Path]:
    """Return the programs of the imported pyinfra: next to this Python, or where pip recorded them.

    `pip install --user` puts them below the user's folder, root's pip on Debian below /usr/local.
    """
    try:
        noted = distribution("pyinfra").files or ()
    except PackageNotFoundError:
        noted = ()
    sibling = Path(sys.executable).with_name("pyinfra")
    places = (sibling, *(Path(str(file.locate())) for file in noted if file.name == "pyinfra"))
    return [path for path in places if path.exists()]


def _ssh() -> Check:
    ssh = shutil.which("ssh")
    if ssh:
        return Check("program ssh", ssh)
    remedy = "install openssh-client: without it ssh_config is read without Include, Match and ProxyJump"
    return Check("program ssh", "is not on the PATH", Severity.WARNING, remedy)


def _known_hosts() -> Check:
    known_hosts = Path("~/.ssh/known_hosts").expanduser()
    if known_hosts.exists() and not os.access(known_hosts, os.R_OK):
        return Check(
            "known_hosts", f"{known_hosts} cannot be read", Severity.ERROR, f"chmod u+r {known_hosts}"
        )
    return Check(
        "known_hosts", str(known_hosts) if known_hosts.exists() else f"there is no {known_hosts} yet"
    )
