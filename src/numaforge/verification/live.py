"""A host as it is now: its plan, and everything the plan speaks of, each read with one command."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import pytest
from testinfra.host import Host

from numaforge import shell
from numaforge.bounded import TooMuchOutputError
from numaforge.errors import HostError, NumaforgeError
from numaforge.file_content import PLAN_PATH
from numaforge.kubelet.config.flags import flag_value
from numaforge.node import bundle
from numaforge.node.bundle import FileState
from numaforge.roles import document
from numaforge.roles.host.plan import unit_limits
from numaforge.roles.kernel_values import paths as kernel_values_paths
from numaforge.roles.mig.files import MIG_WORKER_PATH, mig_files
from numaforge.roles.nics.files import NICS_PATH, NICS_SCRIPT_PATH
from numaforge.roles.node import NodePlan
from numaforge.verification import expectations
from numaforge.verification.expectations import HOSTNAME

Found = TypeVar("Found")

_KINDS = (
    "value",
    "active",
    "enabled",
    "changed",
    "kubelet",
    "mig",
    "host",
    "irqbalance",
    "module",
    "memlock",
    "nic",
    "rdma",
    "bridge",
)
_NO_PLAN = 3
_CONTROL = "roles/gpudirect/control"
_NOT_ROOT = 77  # as_root.sh says so
NOT_INSTALLED = 127  # as a shell reports a program that is not there
_AS_ROOT = shell.library("verification/as_root")


@dataclass(frozen=True)
class Live:
    """The host as it was when it was asked: first lines by path, units by name, file states by path."""

    values: Mapping[str, str]
    swap_devices: tuple[str, ...]
    active: Mapping[str, str]
    enabled: Mapping[str, str]
    changed: Mapping[str, int]  # modification time in seconds since 1970, by path
    kubelet: Mapping[str, str]
    files: Mapping[str, FileState]
    host: Mapping[str, str] = field(default_factory=dict)  # what `tell_host` says, by "held NAME", "clock"
    gpus: Mapping[str, str] = field(
        default_factory=dict
    )  # JSON by PCI address, in the form of the plan's `mig`
    interrupts: Sequence[tuple[str, str]] = ()  # PCI address, "NUMBER CPULIST free|managed"
    irqbalance: Mapping[str, str] = field(default_factory=dict)  # variables of its process
    processes: Sequence[tuple[str, str]] = ()  # slice, "PID CPULIST"

    modules: Mapping[str, str] = field(default_factory=dict)  # "loaded", by name
    memlock: Mapping[str, str] = field(default_factory=dict)  # LimitMEMLOCK, by unit
    nics: Mapping[str, str] = field(default_factory=dict)  # "-" where the host has no tool to tell it
    rdma: Mapping[str, str] = field(default_factory=dict)  # "uverbs0", by "mlx5_0-uverbs"
    bridges: Mapping[str, str] = field(default_factory=dict)  # "15b3:197c 29" by PCI address

    @property
    def node_name(self) -> str:
        """The name under which the kubelet registers: its flag --hostname-override, else the host's name."""
        flags = tuple(self.kubelet.get("arguments", "").split())
        return (flag_value(flags, "hostname-override") or self.values.get(HOSTNAME, "")).lower()

    @property
    def kubelet_started(self) -> float:
        """When the kubelet's process started, in seconds since 1970."""
        uptime = float(self.kubelet["uptime"].split()[0])
        return int(self.kubelet["now"]) - uptime + int(self.kubelet["since"]) / 1e6

    def started_with(self, unit: str, file: str) -> bool:
        """Whether a unit's process has started after a file was written; False where one of them is not."""
        since, written = self.host.get(f"since {unit}"), self.changed.get(file)
        return since is not None and written is not None and int(since) >= written


class VerifiedNode:
    """A host under verification. What cannot be read fails every test that needs it, with the reason.

    A host that has not answered is `unreachable`: its failed tests say nothing of it.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.id: str = host.backend.get_pytest_id()
        self.unreachable = False

    @cached_property
    def plan_or_reason(self) -> NodePlan | NumaforgeError:
        """The host's plan, or why there is none."""
        return _or_reason(self._read_plan)

    def read(self) -> None:
        """Ask the host for everything, so that no test has to wait for it."""
        if not isinstance(self.plan_or_reason, NumaforgeError):
            _ = self._live_or_reason

    @property
    def plan(self) -> NodePlan:
        """The host's plan; fails the test where there is none."""
        return self._need(self.plan_or_reason)

    @property
    def live(self) -> Live:
        """The host as it is now; fails the test where it cannot be read."""
        return self._need(self._live_or_reason)

    def value(self, path: str) -> str | None:
        """Return the first line of a file of the kernel; None where there is no such file."""
        return self.live.values.get(path)

    @cached_property
    def _live_or_reason(self) -> Live | NumaforgeError:
        return _or_reason(lambda: read_live(self._run(probe(self.plan))))

    def _read_plan(self) -> NodePlan:
        path = shlex.quote(PLAN_PATH)
        text = self._run(f"[ -e {path} ] || exit {_NO_PLAN}\nbase64 < {path}\n")
        try:
            return document.loads(base64.b64decode(text).decode("utf-8", "replace"))
        except NumaforgeError as error:
            raise error.at(PLAN_PATH) from error

    def prove(self, script: str) -> str:
        """Run something that takes its time on the host, as root, and return what it says.

        Skips the test where a program is missing, and fails it where the script does.
        """
        try:
            answer = self.host.run("sh -c %s %s", _AS_ROOT, script)
        except TooMuchOutputError as error:
            pytest.fail(str(error.at(self.id)), pytrace=False)
        if answer.rc == NOT_INSTALLED:
            pytest.skip(f"needs a program on the host: {answer.stderr.strip()}")
        if answer.rc:
            pytest.fail(f"ended with {answer.rc}: {answer.stderr.strip()}", pytrace=False)
        return str(answer.stdout)

    def _run(self, script: str) -> str:
        try:
            answer = self.host.run("sh -c %s %s", _AS_ROOT, script)
        except TooMuchOutputError:
            raise
        except Exception as error:
            # Every connection backend has exceptions of its own; all of them mean the same here.
            self.unreachable = True
            raise HostError(
                f"cannot be reached: {error}", remedy="check its name, port, user and key"
            ) from error
        if answer.rc == _NO_PLAN:
            raise HostError(
                f"has no {PLAN_PATH}", remedy="run `pyinfra INVENTORY deploys/site.py` on it first"
            )
        if answer.rc == _NOT_ROOT:
            raise HostError(
                "the login user is not root and sudo does not let it in without a password",
                remedy="log in as root, or give this user a sudoers rule with NOPASSWD: ALL",
            )
        if answer.rc != 0:
            raise HostError(
                f"could not be read: {answer.stderr.strip()}", remedy="try the same login by hand"
            )
        return str(answer.stdout)

    def _need(self, found: Found | NumaforgeError) -> Found:
        if isinstance(found, NumaforgeError):
            pytest.fail(str(found.at(self.id)), pytrace=False)
        return found


def probe(plan: NodePlan) -> str:
    """Return the sh script whose output `read_live` reads: everything that the plan speaks of."""
    paths = [file.path for file in plan.files]
    units = [path.rsplit("/", 1)[1] for path in paths if path.endswith(".service")]
    kubelet = plan.kubelet.unit if plan.kubelet else ""
    sysctls = [
        kernel_values_paths.sysctl(name) for name in (*plan.tuning.sysctls, *plan.tuning.raised_sysctls)
    ]
    states = [path for path, _ in expectations.rail_ports(plan).values()]
    cpus = plan.interrupts
    balancer = ["irqbalance.service"] if cpus.irqbalance else []
    options = [path for path, _ in expectations.module_options(plan).values()]
    host = plan.rdma.host
    calls = [
        shell.call(
            "tell_values",
            [
                *kernel_values_paths.knob_values(plan.tuning),
                *sysctls,
                *states,
                *(path for path, _ in expectations.cpu_masks(plan).values()),
                *options,
                expectations.NETNS,
            ],
        ),
        shell.call("tell_units", [*units, *([kubelet] if kubelet else []), *balancer]),
        *([shell.call("tell_interrupts", sorted(cpus.devices))] if cpus.devices else []),
        *([shell.call("tell_packet_steering", sorted(cpus.rps))] if cpus.rps else []),
        *([shell.call("tell_slices", sorted(plan.system.slices))] if plan.system.slices else []),
        *([shell.call("tell_irqbalance")] if cpus.irqbalance else []),
        shell.call("tell_ages", paths),
        *([shell.call("tell_kubelet", [kubelet])] if kubelet else []),
        *(
            [shell.library(_CONTROL), shell.call("tell_bridges", [*plan.rdma.acs.masks])]
            if plan.rdma.acs.masks
            else []
        ),
        *([shell.call("tell_mig", [MIG_WORKER_PATH])] if mig_files(plan.mig) else []),
        *_host_calls(plan),
        *([shell.call("tell_modules", list(asked))] if (asked := expectations.modules(plan)) else []),
        *([shell.call("tell_memlock", host.memlock_units)] if host.memlock_units else []),
        *([shell.call("tell_nics", [NICS_SCRIPT_PATH, NICS_PATH])] if host.nics else []),
        *([shell.call("tell_rdma_devices")] if host.character_devices else []),
        "echo files\n",
    ]
    return shell.library("verification/probe") + "".join(calls) + bundle.read_script(paths)


def _host_calls(plan: NodePlan) -> list[str]:
    """Return what is asked of the userland, with what the part `packages` looks with itself."""
    host = plan.host
    asked = [*(host.limited_units if unit_limits(host) else ()), *expectations.runtime_handler(plan).values()]
    calls = [shell.call("tell_limits", [*dict.fromkeys(asked)])] if asked else []
    calls += [shell.call("tell_clock")] if host.time_sync else []
    calls += [shell.call("tell_cgroup")] if host.cgroup else []
    if host.holds:
        calls += [
            shell.library("roles/host/look"),
            shell.call("tell_held", [host.package_manager or ""]),
        ]
    return calls


def read_live(output: str) -> Live:
    """Return what the probe said.

    Raises HostError for an answer that is cut off.
    """
    lines = output.splitlines()
    if "files" not in lines:
        raise HostError("the answer is cut off", remedy="run again")
    end = lines.index("files")
    said: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
    swap_devices = []
    repeated: dict[str, list[tuple[str, str]]] = {"interrupt": [], "process": []}
    for line in lines[:end]:
        kind, _, rest = line.partition(" ")
        if kind == "swap":
            swap_devices.append(rest)
        else:
            name, _, value = rest.partition("\t")
            if kind in repeated:
                repeated[kind].append((name, value))
            else:
                said[kind][name] = value
    return Live(
        values=said["value"],
        swap_devices=tuple(swap_devices),
        active=said["active"],
        enabled=said["enabled"],
        changed={path: int(time) for path, time in said["changed"].items()},
        kubelet=said["kubelet"],
        gpus=said["mig"],
        host=said["host"],
        interrupts=repeated["interrupt"],
        processes=repeated["process"],
        irqbalance=said["irqbalance"],
        modules=said["module"],
        memlock=said["memlock"],
        nics=said["nic"],
        rdma=said["rdma"],
        bridges=said["bridge"],
        files=bundle.parse_states(lines[end + 1 :]),
    )


def _or_reason(read: Callable[[], Found]) -> Found | NumaforgeError:
    try:
        return read()
    except NumaforgeError as error:
        return error
