"""The deploy that a command runs on hosts."""

from pathlib import Path

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.resources import deploy_dir


def deploy_file(path: str | None) -> Path:
    """Return the named deploy, else deploys/site.py of this folder, else the package's.

    Raises NumaforgeError where the file does not exist.
    """
    local = Path("deploys/site.py")
    file = Path(path) if path else local if local.exists() else deploy_dir() / "site.py"
    if file.suffix != ".py" or not file.is_file():
        raise NumaforgeError(
            "the deploy does not exist", where=str(file), remedy="name a file, such as deploys/site.py"
        )
    return file
