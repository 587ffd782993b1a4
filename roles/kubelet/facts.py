"""The kubelet on a host: its files, its unit, a change of it that has not ended, and which host that is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from numaforge.bundle import FileState, parse_states, read_script
from numaforge.errors import HostError
from numaforge.hosts import parse_values, values_script
from numaforge.rollout import fence
from numaforge.rollout.fence import Fingerprint, read_fingerprint
from numaforge.rollout.machine import Identity
from numaforge.rollout.transaction import CURRENT, TRANSACTIONS

_FILES_SCRIPT = f"""
if [ -L {CURRENT} ]; then echo "unfinished $(readlink {CURRENT})"; fi
for folder in {TRANSACTIONS}/*/; do
    if [ -e "$folder/unproved" ]; then folder=${{folder%/}}; echo "unproved ${{folder##*/}}"; fi
done
found=
if [ -d "$drop_ins" ]; then found=$(find -L "$drop_ins" -type f -name '*.conf'); fi
IFS='
'
for file in $found; do echo "drop-in $file"; done
echo files
"""
# The files that the kubelet reads for the Node object (GetSystemUUID and machine/info.go in cAdvisor).
_IDENTITY_SCRIPT = f"""
first() {{ printf '%s %s\\n' "$1" "$(head -n 1 "$2" 2>/dev/null)"; }}
first boot_id {fence.BOOT_ID}
first machine_id /etc/machine-id
first system_uuid /sys/class/dmi/id/product_uuid
echo end
"""
_UNIT_SCRIPT = """
for asker in curl python3 wget bash; do
    if command -v "$asker" >/dev/null 2>&1; then echo "asker=$asker"; fi
done
if command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
    systemctl show -p ActiveState -p SubState "$unit"
fi
echo end
"""


@dataclass(frozen=True)
class KubeletFiles:
    """The files that exist among those asked for, every drop-in, and a transaction that has not ended.

    `drop_ins` are paths in the order in which the kubelet reads them. `unfinished` is a transaction's id, as
    is `unproved`: one whose node nobody has proved yet, and which may still be cordoned. `pools` are the
    pages of the hugepage pools that exist, by `nr_hugepages` path. `fingerprint` is what a change has to find
    again when it begins.
    """

    files: Mapping[str, FileState]
    drop_ins: tuple[str, ...]
    unfinished: str | None
    unproved: str | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    fingerprint: Fingerprint | None = None

    def text(self, path: str) -> str | None:
        """Return a file's text, or None where there is no such file."""
        file = self.files.get(path)
        return file.text if file else None


@dataclass(frozen=True)
class KubeletUnit:
    """What systemd says, None without systemd; `askers` are programs that can ask for /healthz."""

    active_state: str | None
    sub_state: str | None
    askers: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether the kubelet was running, rather than stopped, disabled, or starting over and over."""
        return self.active_state == "active" and self.sub_state == "running"

    @property
    def may_start(self) -> bool:
        """Whether it runs, or systemd starts it over and over: then it takes what it finds at any moment."""
        return self.active_state in ("active", "activating")


@dataclass(frozen=True)
class KubeletQuestion:
    """Which files and hugepage pools to read beside the drop-ins in a folder; `known` texts are not sent."""

    paths: tuple[str, ...]
    drop_in_folder: str | None
    known: tuple[str, ...]
    pools: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        """The script whose output `kubelet_files` reads."""
        look = f"ROOT={TRANSACTIONS}\n{fence.FUNCTIONS}{fence.look_command(self.drop_in_folder, self.paths)}"
        folder = f"drop_ins={shlex.quote(self.drop_in_folder or '')}\n"
        files = read_script(self.paths, self.known, more="$found")
        return f"{values_script(self.pools)}{look}{folder}{_FILES_SCRIPT}{files}"


Ask = Callable[[str], Sequence[str]]
"""Runs a script on a host, and returns the lines it prints."""


def kubelet_files(ask: Ask, question: KubeletQuestion) -> KubeletFiles:
    """Read the files, the drop-ins and the pools in one round trip."""
    output = ask(question.script)
    if "files" not in output:
        raise HostError("the answer about the kubelet's files is cut off", remedy="run again")
    begin, end = output.index(".") + 1, output.index("files")
    words = [line.partition(" ")[::2] for line in output[begin:end]]
    return KubeletFiles(
        files=parse_states(output[end + 1 :], question.known),
        drop_ins=tuple(sorted(path for kind, path in words if kind == "drop-in")),
        unfinished=next((name for kind, name in words if kind == "unfinished"), None),
        unproved=next((name for kind, name in words if kind == "unproved"), None),
        pools={path: int(pages) for path, pages in parse_values(question.pools, output[:begin]).items()},
        fingerprint=read_fingerprint(output[begin:end], question.drop_in_folder),
    )


def identity(ask: Ask) -> Identity:
    """Ask which host it is, in one round trip."""
    output = ask(_IDENTITY_SCRIPT)
    if not output or output[-1] != "end":
        raise HostError("the answer about the host's identity is cut off", remedy="run again")
    values = dict(line.partition(" ")[::2] for line in output[:-1])
    return Identity(**{name: value.strip().lower() or None for name, value in values.items()})


def kubelet_unit(ask: Ask, unit: str) -> KubeletUnit:
    """Ask systemd about the unit, in one round trip."""
    output = ask(f"unit={shlex.quote(unit)}\n{_UNIT_SCRIPT}")
    if not output or output[-1] != "end":
        raise HostError("the answer about the kubelet's unit is cut off", remedy="run again")
    pairs = [line.partition("=") for line in output[:-1]]
    values = {name: value for name, _, value in pairs}
    return KubeletUnit(
        active_state=values.get("ActiveState"),
        sub_state=values.get("SubState"),
        askers=tuple(value for name, _, value in pairs if name == "asker"),
    )
