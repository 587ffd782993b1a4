"""An image for nodes that plan themselves: what all of them share, and the units that decide the rest."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyinfra import host

from numaforge.change.look import GUARD
from numaforge.image.bake import program
from numaforge.image.bake.manifest import BOM, Installed, RootKubelet, bill, manifest
from numaforge.image.first_boot.hardware import MACHINES, written
from numaforge.image.first_boot.settings import MANIFEST, SETTINGS
from numaforge.image.first_boot.stamp import PROGRAM, REPORT_UNIT, boot_script
from numaforge.image.wish import (
    CMDLINE,
    KEY,
    Image,
    cmdline_text,
    machines_of,
    plans_of,
    profile_files,
    read_image,
)
from numaforge.lib import shell
from numaforge.lib.errors import HostError
from numaforge.lib.file_content import WRITTEN_BELOW
from numaforge.lib.framing import Answer, asking
from numaforge.lib.given import read_text
from numaforge.node.bundle import checksum
from numaforge.run.hosts.display import announce
from numaforge.run.hosts.operations import Commands, host_command, host_operation
from numaforge.run.hosts.roles import role
from numaforge.run.hosts.scripts import reached

if TYPE_CHECKING:
    from pyinfra.api import Host

__all__ = ["image"]

_HERE = Path(__file__).parent
_BOOT = f"{program.HOME}/boot"
_UNITS = ("numaforge-boot.service", REPORT_UNIT)
_UNIT_FOLDER = "/etc/systemd/system"
_HOLDS = "/etc/apt/apt.conf.d/52numaforge"
_PROFILES = "/etc/numaforge/profiles"
_ENABLED = ("enabled", "static", "alias", "indirect", "generated")
_EMPTIED = ("/etc/machine-id", "/var/log", "/var/cache/apt/archives")
_SECONDS = 3600  # allows for packages over a slow line


@dataclass(frozen=True)
class FoundImage:
    """An image as found.

    `node` is the reason why this is a node and not an image, or "". `unwritable` has a sentence for each
    folder that a plan writes to and a node of the image cannot, `cmdline` one for each kernel parameter that
    a machine needs and its first boot would not have. `pythons` are usable ones: version,
    machine, path. `files` has checksums by path, `units` the state from `systemctl is-enabled`, `packages`
    the version of each wanted package and whether it is held. `left` are paths that sysprep would remove or
    empty. `manager` is apt or dnf, `package_doubt` why it cannot be used, or "".
    """

    node: str = ""
    unwritable: tuple[str, ...] = ()
    cmdline: tuple[str, ...] = ()
    kubelet: RootKubelet | None = None
    pythons: tuple[tuple[str, str, str], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    installed: tuple[Installed, ...] = ()
    left: tuple[str, ...] = ()
    release: str = ""
    manager: str = ""
    package_doubt: str = ""


@dataclass(frozen=True)
class Recipe:
    """The recipe of an image: its settings, and the texts of its own profiles and machines by path."""

    wish: Image
    profiles: Mapping[str, str]
    machines: Mapping[str, str] = field(default_factory=dict)

    @property
    def units(self) -> tuple[str, ...]:
        """The units that start at boot."""
        return (*_UNITS, *self.wish.enable)

    def missing(self, present: FoundImage) -> tuple[str, ...]:
        """Return the packages that are missing or not of the wanted version."""
        return tuple(
            name
            for name, version in self.wish.packages.items()
            if name not in present.packages or not fnmatchcase(present.packages[name][0], version)
        )

    def unheld(self, present: FoundImage) -> tuple[str, ...]:
        """Return the packages that an upgrade could replace: not held."""
        return tuple(name for name in self.wish.packages if present.packages.get(name, ("", ""))[1] != "held")

    def disabled(self, present: FoundImage) -> tuple[str, ...]:
        """Return the units that would not start at boot."""
        return tuple(unit for unit in self.units if present.units.get(unit) not in _ENABLED)

    def files(self, present: FoundImage) -> dict[str, str]:
        """Return the files of the image by path, except its manifest, which has their checksums."""
        python, machine, command = best_python(present)
        files = {
            PROGRAM: program.program(program.digest(python, machine), command),
            _BOOT: boot_script(),
            **{f"{_UNIT_FOLDER}/{unit}": (_HERE / unit).read_text() for unit in _UNITS},
            GUARD: (_HERE / "guard.conf").read_text(),
            str(SETTINGS): json.dumps(self.wish.boot.model_dump(exclude_none=True), indent=2) + "\n",
            **self.profiles,
            **self.machines,
        }
        if self.wish.packages and present.manager == "apt":
            blacklist = "".join(
                f'    "^{name.replace("+", "[+]")}$";\n' for name in sorted(self.wish.packages)
            )
            files[_HOLDS] = f"Unattended-Upgrade::Package-Blacklist {{\n{blacklist}}};\n"
        return files

    def records(self, present: FoundImage) -> dict[str, str]:
        """Return the manifest and the bill of materials of an otherwise complete image."""
        python, machine, _ = best_python(present)
        sums = {path: checksum(text) for path, text in self.files(present).items()}
        text = manifest(
            present.release,
            present.installed,
            sums,
            kubelet=present.kubelet,
            digest=program.digest(python, machine),
            driver=self.wish.driver,
            held=self.wish.packages,
        )
        kind = "rpm" if present.manager == "dnf" else "deb"
        materials = bill(present.release, kind, present.installed, program.libraries())
        return {MANIFEST: text, **({BOM: materials} if materials else {})}

    def lacks(self, present: FoundImage) -> Iterator[str]:
        """Yield a sentence for each change that the image needs."""
        for name in self.missing(present):
            has = present.packages.get(name, ("", ""))[0]
            yield f"{name} {self.wish.packages[name]} is installed{f' in the place of {has}' if has else ''}"
        for name in self.unheld(present):
            yield f"{name} is held"
        if not present.pythons and self.missing(present):
            yield f"numaforge is put into {program.HOME}, with its files and units"
            return
        files = {**self.files(present), **self.records(present)}
        if self.missing(present):
            files = self.files(present)
        for path, text in files.items():
            if present.files.get(path) != checksum(text):
                yield f"{path} is written"
        for unit in self.disabled(present):
            yield f"{unit} is enabled, and not started"
        for path in present.left:
            yield f"{path} is emptied" if path in _EMPTIED else f"{path} is removed"


@role("Image")
def image() -> None:
    """Make the image in the host data `numaforge_image`: a mapping, or its file.

    Changes nothing outside the image, and nothing that is already as wanted; starts nothing.
    """
    wish = read_image(host.data.get(KEY) or {})
    profiles = {f"{_PROFILES}/{name}.yaml": read_text(file) for name, file in profile_files(wish).items()}
    expected = {f"{MACHINES}/{name}.json": written(machine) for name, machine in machines_of(wish).items()}
    if plans := plans_of(wish):
        expected[CMDLINE] = cmdline_text(plans, wish.kernel_cmdline)
    _bake(name="Bake the image", recipe=Recipe(wish, profiles, expected))


@host_operation
def _bake(recipe: Recipe) -> Commands:
    """Change the image to match its recipe.

    + recipe: its components
    """
    present = read_found(reached(host, _look(recipe)))
    if present.node:
        raise HostError(f"{present.node}: this is a node, not an image", remedy="plan it: deploys/site.py")
    if present.unwritable:
        raise HostError(
            f"no plan can be written on a node of this image: {'; '.join(present.unwritable)}",
            remedy="mount these folders writable, or an overlay over them",
        )
    if present.package_doubt:
        raise HostError(
            f"the packages of the image cannot be managed: {present.package_doubt}",
            remedy="have the builder put apt, or dnf and rpm, into the root",
        )
    lacks = [*recipe.lacks(present)]
    if not lacks:
        host.noop("the image is as planned")
        return
    announce(host, lacks)
    yield host_command(_make, recipe)


def _make(on: Host, recipe: Recipe) -> None:
    """Make the image: packages first, because one may be the Python that the rest needs."""
    ask = partial(reached, on, seconds=_SECONDS)
    present = read_found(ask(_look(recipe)))
    if missing := recipe.missing(present):
        versions = recipe.wish.packages
        wanted = (name if versions[name] == "*" else f"{name}={versions[name]}" for name in missing)
        ask(_script("install_packages", *wanted))
    if unheld := recipe.unheld(present):
        ask(_script("hold_packages", *unheld))
    present = read_found(ask(_look(recipe)))
    if wrong := recipe.missing(present):
        has = ", ".join(f"{name} {present.packages.get(name, ('nothing', ''))[0]}" for name in wrong)
        raise HostError(f"{present.manager} has installed {has}", where=f"{KEY}: packages")
    python, machine, command = best_python(present)
    files = recipe.files(present)
    if present.files.get(PROGRAM) != checksum(files[PROGRAM]):
        packed = base64.encodebytes(program.packages(python, machine)).decode()
        ask(_script("unpack", program.HOME, command, data=packed))
        present = read_found(ask(_look(recipe)))
    _put(ask, present, files)
    present = read_found(ask(_look(recipe)))
    if absent := [unit for unit in recipe.units if present.units.get(unit, "") in ("", "not-found")]:
        raise HostError(
            f"the image has no {', '.join(absent)}",
            where=f"{KEY}: enable",
            remedy="name the package that has it in packages, or leave it out of enable",
        )
    if disabled := recipe.disabled(present):
        ask(_script("enable", *disabled))
    _put(ask, present, recipe.records(present))
    ask(_script("label", program.HOME, "/etc/numaforge", "/etc/systemd/system"))
    if recipe.wish.sysprep:
        ask(_script("sysprep"))
    for sentence in present.cmdline:
        on.log(f"note: {sentence}")


def _put(ask: partial[Answer], present: FoundImage, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        if present.files.get(path) != checksum(text):
            mode = "0755" if path in (PROGRAM, _BOOT) else "0644"
            ask(_script("put", path, mode, data=base64.encodebytes(text.encode()).decode()))


def read_found(answer: Answer) -> FoundImage:
    """Return the image in the output of `tell_image` in image.sh."""
    rows: dict[str, list[str]] = {}
    for line in answer.lines:
        kind, _, rest = line.partition(" ")
        rows.setdefault(kind, []).append(rest)
    pythons = [row.split(" ") for row in rows.get("python", ())]
    packages = [row.split(" ") for row in rows.get("package", ())]
    return FoundImage(
        node="".join(rows.get("node", ())[:1]),
        unwritable=tuple(rows.get("unwritable", ())),
        cmdline=tuple(rows.get("cmdline", ())),
        kubelet=_kubelet(rows.get("kubelet", ())),
        pythons=tuple((version, machine, path) for version, machine, path in pythons),
        files={path: total for total, path in (row.split(" ", 1) for row in rows.get("file", ()))},
        units={unit: state for state, unit in (row.split(" ", 1) for row in rows.get("unit", ()))},
        packages={name: (version, state) for state, version, name in packages},
        installed=tuple(Installed(*row.split(" ")) for row in rows.get("installed", ())),
        left=tuple(rows.get("left", ())),
        release="".join(rows.get("release", ())[:1]),
        manager="".join(rows.get("manager", ())),
        package_doubt="; ".join(rows.get("packages", ())),
    )


def _kubelet(rows: Sequence[str]) -> RootKubelet | None:
    for row in rows:
        version, sha256, path, source = row.split(" ", 3)
        return RootKubelet(None if version == "unknown" else version, sha256, path, source)
    return None


def best_python(present: FoundImage) -> tuple[str, str, str]:
    """Return version, machine and path of the first Python that can run numaforge, or raise HostError."""
    for python, machine, path in present.pythons:
        if program.is_new_enough(python):
            return python, machine, path
    has = ", ".join(python for python, *_ in present.pythons) or "no Python"
    raise HostError(
        f"the image has {has}, and numaforge needs {program.OLDEST_PYTHON}",
        where=f"{KEY}: packages",
        remedy="name one: python3, python3.11 on Ubuntu 22.04, python3.12 on RHEL 9",
    )


def _look(recipe: Recipe) -> str:
    units = [f"{_UNIT_FOLDER}/{unit}" for unit in _UNITS]
    paths = [PROGRAM, _BOOT, *units, GUARD, _HOLDS, str(SETTINGS), MANIFEST, BOM]
    paths += [*recipe.profiles, *recipe.machines]
    lists: Sequence[Sequence[str]] = (paths, recipe.units, [*recipe.wish.packages])
    sysprep = "sysprep" if recipe.wish.sysprep else ""
    return _script("tell_image", *(" ".join(words) for words in lists), sysprep)


def _script(function: str, *arguments: str, data: str = "") -> str:
    libraries = shell.assignments({"WRITTEN_BELOW": " ".join(WRITTEN_BELOW)}) + shell.library(
        "roles/host/look",
        "roles/kernel_cmdline/look",
        "image/bake/packages",
        "image/bake/hygiene",
        "image/bake/image",
    )
    return asking(libraries + shell.call(function, arguments, data))
