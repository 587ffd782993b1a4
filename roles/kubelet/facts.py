"""The kubelet on a host: its files, its unit, and a change of it that has not ended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from pyinfra.api import Host

from numaforge.bundle import FileState, parse_states, read_script
from numaforge.errors import HostError
from numaforge.hosts import script_output
from numaforge.rollout.transaction import CURRENT

_FILES_SCRIPT = f"""
if [ -L {CURRENT} ]; then echo "unfinished $(readlink {CURRENT})"; fi
found=
if [ -d "$drop_ins" ]; then found=$(find -L "$drop_ins" -type f -name '*.conf'); fi
IFS='
'
for file in $found; do echo "drop-in $file"; done
echo files
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

    `drop_ins` are paths in the order in which the kubelet reads them, `unfinished` is a transaction's id.
    """

    files: Mapping[str, FileState]
    drop_ins: tuple[str, ...]
    unfinished: str | None

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


@dataclass(frozen=True)
class KubeletQuestion:
    """Which files to read beside the drop-ins in a folder; texts among the `known` ones are not sent."""

    paths: tuple[str, ...]
    drop_in_folder: str | None
    known: tuple[str, ...]

    @property
    def script(self) -> str:
        """The script whose output `kubelet_files` reads."""
        folder = f"drop_ins={shlex.quote(self.drop_in_folder or '')}\n"
        return f"{folder}{_FILES_SCRIPT}{read_script(self.paths, self.known, more='$found')}"


def kubelet_files(host: Host, question: KubeletQuestion) -> KubeletFiles:
    """Read the files and the drop-ins in one round trip."""
    output = script_output(host, question.script)
    if "files" not in output:
        raise HostError("the answer about the kubelet's files is cut off", remedy="run again")
    end = output.index("files")
    words = [line.split(" ", 1) for line in output[:end]]
    return KubeletFiles(
        files=parse_states(output[end + 1 :], question.known),
        drop_ins=tuple(sorted(path for kind, path in words if kind == "drop-in")),
        unfinished=next((name for kind, name in words if kind == "unfinished"), None),
    )


def kubelet_unit(host: Host, unit: str) -> KubeletUnit:
    """Ask systemd about the unit, in one round trip."""
    output = script_output(host, f"unit={shlex.quote(unit)}\n{_UNIT_SCRIPT}")
    if output[-1] != "end":
        raise HostError("the answer about the kubelet's unit is cut off", remedy="run again")
    pairs = [line.partition("=") for line in output[:-1]]
    values = {name: value for name, _, value in pairs}
    return KubeletUnit(
        active_state=values.get("ActiveState"),
        sub_state=values.get("SubState"),
        askers=tuple(value for name, _, value in pairs if name == "asker"),
    )
