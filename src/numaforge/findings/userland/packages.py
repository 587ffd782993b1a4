"""Rules about unattended upgrades, and packages that are not held."""

import re
from collections.abc import Iterator, Sequence

from numaforge.findings.engine import Applicability, Seen, within
from numaforge.findings.rules import machine_rule
from numaforge.findings.userland import scope
from numaforge.lib.ordering import first_of
from numaforge.machine.topology.model import InstalledPackage, NodeTopology

_LONGEST = 200
_SHOWN = 40


@within(scope.with_kubelet)
def _with_packages(machine: NodeTopology) -> Applicability:
    packages = scope.userland(machine).packages
    if packages is None:
        return Applicability(None, "the package database was not asked")
    if not packages:
        return Applicability(False, "neither kernel, driver, kubelet nor runtime is a package here")
    return Applicability(True, f"{len(packages)} packages of kernel, driver, kubelet and runtime")


@within(_with_packages)
def _upgraded_alone(machine: NodeTopology) -> Applicability:
    upgrades = scope.userland(machine).upgrades
    if upgrades is None:
        return Applicability(None, "unknown whether packages are upgraded unattended")
    return Applicability(upgrades, "upgrades are unattended" if upgrades else "no upgrade is unattended")


def _would_upgrade(machine: NodeTopology) -> Iterator[Seen]:
    userland = scope.userland(machine)
    patterns = [pattern for pattern in userland.upgrades_skip if is_bounded(pattern)]
    loose = [p for p in userland.packages or () if not p.held and not _skipped(p.name, patterns)]
    unknown = [pattern for pattern in userland.upgrades_skip if pattern not in patterns]
    if loose and unknown:
        yield Seen(unknown=f"which packages {unknown[0][:_SHOWN]!r} leaves alone is not worked out")
    else:
        yield from _by_kind(loose, "an unattended upgrade takes it along")


def _not_held(machine: NodeTopology) -> Iterator[Seen]:
    packages = scope.userland(machine).packages or ()
    if any(package.held is None for package in packages):
        yield Seen(unknown="held packages are unknown")
    yield from _by_kind([p for p in packages if p.held is False], "not held at their version")


def _by_kind(packages: list[InstalledPackage], problem: str) -> Iterator[Seen]:
    for kind in dict.fromkeys(package.kind for package in packages):
        names = [package.name for package in packages if package.kind == kind]
        yield Seen(f"{first_of(names)}: {problem}", kind)


def is_bounded(pattern: str) -> bool:
    """Return whether Python matches a host's own regular expression with a package's name in a moment.

    Only one character or class is repeated, at most three times without an end and eight times in all,
    optional groups and alternatives counted: matches 60 characters in less than a second. A repeated or
    referenced group can take forever.
    """
    plain = re.sub(r"\\\D|\[\^?\]?[^\]]*\]", "x", pattern)
    endless = len(re.findall(r"[*+{]", plain))
    choices = len(re.findall(r"[?|]", plain))
    repeats_a_group = re.search(r"\)[*+{]", plain) or re.search(r"\\\d|\(\?P=", plain)
    return len(pattern) <= _LONGEST and endless <= 3 and endless + choices <= 8 and not repeats_a_group


def _skipped(name: str, patterns: Sequence[str]) -> bool:
    """Return whether unattended-upgrades leaves a package alone; its patterns match from the name's start."""
    for pattern in patterns:
        try:
            if re.match(pattern, name):
                return True
        except re.error:
            continue  # it matches nothing there either
    return False


RULES = (
    machine_rule("NH201", _upgraded_alone, _would_upgrade),
    machine_rule("NH202", _with_packages, _not_held),
)
