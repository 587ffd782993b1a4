"""Make all that a release publishes, in one folder: `python packaging/release.py FOLDER`, or `make release`.

The folder gets the wheel, the sdist, the bundle, their SBOM in CycloneDX, `SHA256SUMS`, and `TAG`, the
message of the tag: what the changelog says of the version, and the checksums. The same commit is the same
files, byte for byte, with the same Python.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bundle import LOCK, ROOT, build, install, write_bundle

VERSION = ROOT / "src/numaforge/__init__.py"
SUMS, TAG = "SHA256SUMS", "TAG"


class NotReadyError(Exception):
    """What is checked out is no version that can be published."""


def make(folder: Path) -> None:
    """Make the release in a folder; raises NotReadyError before anything is written."""
    version = re.findall(r'^__version__ = "(.+)"$', VERSION.read_text(), re.MULTILINE)[0]
    notes = notes_of(version, (ROOT / "CHANGELOG.md").read_text())
    commit = _published(version)
    os.environ["SOURCE_DATE_EPOCH"] = _output("git", "show", "-s", "--format=%ct", commit)
    os.umask(0o022)  # the sdist has the modes of files
    folder.mkdir(parents=True, exist_ok=True)
    if left := sorted(path.name for path in folder.iterdir()):
        raise NotReadyError(f"{folder} holds {', '.join(left)}: name an empty folder")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source")  # as it is committed: nothing that lies beside it gets in
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
        build("sdist", source, folder)
        venv = Path(scratch, "venv")
        install(build("wheel", source, folder), venv)
        write_bundle(venv, folder / "numaforge.pyz")
        materials = sbom(venv, version)
        refuse_unlocked(materials, LOCK.read_text())
        (folder / f"numaforge-{version}.cdx.json").write_text(materials)
    sums = "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir())
    )
    (folder / SUMS).write_text(sums)
    (folder / TAG).write_text(f"numaforge {version}\n\n{notes}\n\nSHA-256:\n\n{sums}")
    print(_what_is_next(version, folder))


def notes_of(version: str, changelog: str) -> str:
    """Return what a changelog says of a version.

    Raises NotReadyError where it says nothing of it, or where more is unreleased.
    """
    sections = {
        heading: text.strip()
        for heading, text in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    }
    if sections.get("Unreleased"):
        raise NotReadyError(
            f"CHANGELOG.md has changes under Unreleased, and numaforge is {version}: "
            f"write the new version into {VERSION.relative_to(ROOT)} and over these changes"
        )
    notes = next((text for heading, text in sections.items() if heading.split()[0] == version), "")
    if not notes:
        raise NotReadyError(f"CHANGELOG.md says nothing of {version}: it needs a section `## {version}`")
    return notes


def sbom(venv: Path, version: str) -> str:
    """Return what a virtual environment holds, as CycloneDX JSON."""
    made = _output(
        *(sys.executable, "-m", "cyclonedx_py", "environment", str(venv / "bin/python")),
        *("--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--output-format", "JSON"),
    )
    document = json.loads(made)
    document["metadata"]["component"] |= {"version": version, "purl": f"pkg:pypi/numaforge@{version}"}
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def refuse_unlocked(materials: str, lock: str) -> None:
    """Raise NotReadyError where an SBOM and a lock name other packages or versions."""
    listed = {(_normal(part["name"]), part["version"]) for part in json.loads(materials)["components"]}
    locked = {
        (_normal(name), version) for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE)
    }
    if other := sorted(f"{name} {version}" for name, version in listed ^ locked):
        raise NotReadyError(f"the SBOM and {LOCK.name} differ in {', '.join(other)}: run make lock")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _published(version: str) -> str:
    """Return the commit that is checked out.

    Raises NotReadyError where more is checked out than that, or the version is published already.
    """
    if changed := _output("git", "status", "--porcelain"):
        raise NotReadyError(f"what is not committed would not be in the release:\n{changed}")
    commit = _output("git", "rev-parse", "HEAD")
    tagged = subprocess.run(
        ["git", "rev-parse", "--quiet", "--verify", f"refs/tags/v{version}^{{commit}}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    if tagged and tagged != commit:
        raise NotReadyError(f"v{version} is the tag of another commit: a version is published once")
    return commit


def _what_is_next(version: str, folder: Path) -> str:
    return f"""{folder} has numaforge {version}. To publish it:

    git tag --sign --cleanup=verbatim --file {folder / TAG} v{version} && git push origin v{version}
    python -m twine upload {folder}/*.whl {folder}/*.tar.gz"""


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]).resolve())
    except NotReadyError as error:
        sys.exit(f"release: {error}")
