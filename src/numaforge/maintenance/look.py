"""The look at a node: everything that a change is decided on, in one round trip."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from numaforge import shell
from numaforge.errors import HostError, HostUnreachableError
from numaforge.maintenance import parts
from numaforge.maintenance.bundle import known_sums, parse_checksums, parse_states
from numaforge.maintenance.fence import read_fingerprint
from numaforge.maintenance.part import FailedPlan, Found, Goal, Unit
from numaforge.maintenance.pods import read_pods, root_dirs
from numaforge.maintenance.transaction import TRANSACTIONS

TOOLS = (
    *("base64", "cat", "chmod", "chown", "cp", "date", "find", "grep", "ln", "ls", "mkdir", "mv", "readlink"),
    *("rm", "sed", "sha256sum", "sleep", "stat", "sync", "tr"),
)
"""The programs with which a node is looked at and changed; without one of them nothing is."""
_LACKS = "lacks "
_PODS = "pods"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
Ask = Callable[[str], Sequence[str]]
"""Runs a script on a node, and returns the lines it prints."""


@dataclass(frozen=True)
class NodeQuery:
    """What the parts of a goal have to know of a node.

    `unit` is the kubelet's, "" where there is none; `pod_roots` are folders below which kubelets keep pods.
    """

    values: tuple[str, ...]
    files: tuple[str, ...]
    known: tuple[str, ...]
    calls: tuple[tuple[str, ...], ...]
    drop_in_folder: str
    unit: str
    pod_roots: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        """The script whose output `read_found` reads."""
        return self.script_of(None)

    def script_of(self, announced: str | None) -> str:
        """Return the script, which first has the node see a transaction announced that may follow."""
        names = parts.look_shell_of(part for part, *_ in self.calls)
        return (
            shell.assignments({"ROOT": TRANSACTIONS})
            + shell.library("node/fence", "node/trace", "node/pods", "node/bundle_read", "node/look", *names)
            + shell.call("need_tools", TOOLS)
            + (shell.call("see", ["announced", announced]) if announced else "")
            + shell.call("read_values", [*self.values, _BOOT_ID])
            + shell.call("tell_transactions")
            + shell.call(
                "read_files_and_drop_ins", [self.drop_in_folder, known_sums(self.known), *self.files]
            )
            + shell.call("tell_part", [_PODS, "tell_pods", *self.pod_roots])
            + "".join(shell.call("tell_part", call) for call in self.calls)
            + shell.call("tell_end")
        )

    @property
    def unit_script(self) -> str:
        """The script whose output `read_unit` reads."""
        return shell.library("node/look") + shell.call("tell_unit", [self.unit])


def question(goal: Goal) -> NodeQuery:
    """Return what the parts have to know; what the detection saw a moment ago is not sent again."""
    looks = {kind.NAME: kind.look(goal) for kind in parts.KINDS}
    kubelet, install = goal.plan.kubelet, goal.machine.kubelet
    folder = (kubelet and kubelet.config_dir) or (install and install.config_dir)
    return NodeQuery(
        values=tuple(dict.fromkeys(path for look in looks.values() for path in look.values)),
        files=tuple(dict.fromkeys(path for look in looks.values() for path in look.files)),
        known=tuple(dict.fromkeys(text for look in looks.values() for text in look.known)),
        calls=tuple((name, *look.call) for name, look in looks.items() if look.call),
        drop_in_folder=folder if folder and "kubelet" in goal.roles else "",
        unit=kubelet.unit if kubelet else "",
        pod_roots=root_dirs(install, kubelet.root_dir if kubelet else None),
    )


def look(ask: Ask, asked: NodeQuery, announced: str | None = None) -> Found:
    """Look at a node, in one round trip; `announced` is the id of a transaction that may be handed to it."""
    return read_found(asked, ask(asked.script_of(announced)), lambda: read_unit(ask(asked.unit_script)))


def read_found(asked: NodeQuery, output: Sequence[str], unit: Callable[[], Unit]) -> Found:
    """Read what the question's script has printed.

    Raises HostError for a host without the programs for it, HostUnreachableError for an answer that is cut
    off: the host may be on its way down.
    """
    if output and output[0].startswith(_LACKS):
        raise HostError(
            f"the host lacks {', '.join(output[0].removeprefix(_LACKS).split())}, which a change of it needs",
            remedy="install them there (coreutils, findutils, grep and sed, or busybox), in the PATH that a "
            "command over SSH has",
        )
    if "." not in output or "files" not in output or output[-1] != "looked":
        raise HostUnreachableError("the answer about the node is cut off", remedy="run again")
    values_end, files_at = output.index(".") + 1, output.index("files")
    files_end = output.index("end", files_at) + 1
    values = parse_values([*asked.values, _BOOT_ID], output[:values_end])
    words = [line.partition(" ")[::2] for line in output[values_end:files_at]]
    drop_ins = sorted(path for kind, path in words if kind == "drop-in")
    files = output[files_at + 1 : files_end]
    said = _said([_PODS, *(part for part, *_ in asked.calls)], output[files_end:-1])
    return Found(
        files=parse_states(files, asked.known),
        drop_ins=tuple(drop_ins),
        unfinished=next((name for kind, name in words if kind == "unfinished"), None),
        failure=_failure(dict(words)),
        unproved=next((name for kind, name in words if kind == "unproved"), None),
        values={path: value for path, value in values.items() if path != _BOOT_ID},
        pods=read_pods(said.pop(_PODS, ())),
        said=said,
        fingerprint=read_fingerprint(
            dict(words),
            boot_id=values.get(_BOOT_ID, "unknown"),
            contents=parse_checksums(files, [*asked.files, *drop_ins]),
            drop_in_folder=asked.drop_in_folder or None,
        ),
        unit=_once(unit),
    )


def _failure(words: Mapping[str, str]) -> FailedPlan | None:
    names = ("failed-plan", "failed-boot", "failed-when", "failed-why")
    if not all(name in words for name in names):
        return None
    return FailedPlan(*(words[name] for name in names))


def _said(asked: Sequence[str], lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the lines that each of the parts has printed, below the line that names it."""
    names = {f"part {part}": part for part in asked}
    said: dict[str, list[str]] = {}
    part = ""
    for line in filter(None, lines):
        if line in names:
            part = names[line]
        else:
            said.setdefault(part, []).append(line)
    return {part: tuple(answers) for part, answers in said.items()}


def parse_values(paths: Sequence[str], output: Sequence[str]) -> dict[str, str]:
    """Return what `read_values` in look.sh printed, by path.

    Raises HostUnreachableError for an answer that is cut off: the host may be on its way down.
    """
    if not output or output[-1] != ".":
        raise HostUnreachableError("the answer about kernel settings is cut off", remedy="run again")
    asked = {*paths}
    values: dict[str, str] = {}
    for line in output[:-1]:
        for colon in re.finditer(":", line):  # the path may hold one, as for the interface eth0:1
            path, value = line[: colon.start()], line[colon.end() :]
            if path in asked:
                values.setdefault(path, value)
                break
    return values


def read_unit(output: Sequence[str]) -> Unit:
    """Read what `tell_unit` in look.sh printed.

    Raises HostUnreachableError for an answer that is cut off: the host may be on its way down.
    """
    if not output or output[-1] != "end":
        raise HostUnreachableError("the answer about the kubelet's unit is cut off", remedy="run again")
    pairs = [line.partition("=") for line in output[:-1]]
    values = {name: value for name, _, value in pairs}
    if "systemd" in values and not values.get("ActiveState"):
        raise HostUnreachableError("systemd does not say how the kubelet's unit is", remedy="run again")
    return Unit(
        active_state=values.get("ActiveState"),
        sub_state=values.get("SubState"),
        askers=tuple(value for name, _, value in pairs if name == "asker"),
    )


def _once(ask: Callable[[], Unit]) -> Callable[[], Unit]:
    answers: list[Unit] = []

    def unit() -> Unit:
        if not answers:
            answers.append(ask())
        return answers[0]

    return unit
