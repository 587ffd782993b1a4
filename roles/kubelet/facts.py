"""The kubelet on a host: its unit, its files, and a change of it that has not ended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyinfra.api import Host

from numaforge.bundle import FileState, parse_states, read_script
from numaforge.errors import HostError
from numaforge.hosts import script_output
from numaforge.rollout.transaction import CURRENT

_SCRIPT = f"""
if command -v systemctl >/dev/null 2>&1; then
    systemctl show -p LoadState -p ActiveState -p SubState "$unit" | sed 's/^/unit /'
fi
for asker in curl python3 wget bash; do
    if command -v "$asker" >/dev/null 2>&1; then echo "asker $asker"; fi
done
if unfinished=$(readlink {CURRENT}); then echo "unfinished $unfinished"; fi
found=
if [ -d "$drop_ins" ]; then found=$(find -L "$drop_ins" -type f -name '*.conf' | LC_ALL=C sort); fi
IFS='
'
for file in $found; do echo "drop-in $file"; done
echo files
"""


@dataclass(frozen=True)
class KubeletState:
    """`unit` holds systemd's LoadState, ActiveState and SubState (empty without systemd).

    `askers` are the programs that can ask for /healthz, `unfinished` the id of a transaction that has begun
    and not ended, `drop_ins` the paths in the folder of drop-ins, `files` what exists of them and of the
    files asked for.
    """

    unit: Mapping[str, str]
    askers: tuple[str, ...]
    unfinished: str | None
    drop_ins: tuple[str, ...]
    files: Mapping[str, FileState]

    @property
    def runs(self) -> bool:
        """Whether the kubelet was running, rather than stopped, disabled, or starting over and over."""
        return self.unit.get("ActiveState") == "active" and self.unit.get("SubState") == "running"

    def text(self, path: str) -> str | None:
        """Return a file's text, or None where there is no such file."""
        file = self.files.get(path)
        return file.text if file else None


def kubelet_state(host: Host, unit: str, paths: Sequence[str], drop_in_folder: str | None) -> KubeletState:
    """Read the unit, the files and the drop-ins in one round trip."""
    variables = f"unit={shlex.quote(unit)}\ndrop_ins={shlex.quote(drop_in_folder or '')}\n"
    output = script_output(host, f"{variables}{_SCRIPT}{read_script(paths, more='$found')}")
    if "files" not in output:
        raise HostError("the answer about the kubelet is cut off", remedy="run again")
    end = output.index("files")
    words = [line.split(" ", 1) for line in output[:end]]
    units = [value.partition("=") for kind, value in words if kind == "unit"]
    drop_ins = [value for kind, value in words if kind == "drop-in"]
    return KubeletState(
        unit={name: value for name, _, value in units},
        askers=tuple(value for kind, value in words if kind == "asker"),
        unfinished=next((value for kind, value in words if kind == "unfinished"), None),
        drop_ins=tuple(drop_ins),
        files=parse_states([*paths, *drop_ins], output[end + 1 :]),
    )
