"""The kubelet: restarted where its effective settings change; must then become healthy twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numaforge.kubelet.checkpoints import CPU_STATE_FILE, MEMORY_STATE_FILE
from numaforge.kubelet.findings import require_start
from numaforge.lib.errors import HostError
from numaforge.lib.shell import line
from numaforge.machine.topology.model import NodeTopology
from numaforge.node.part import Look, NodeState, Part, Unit, lines
from numaforge.roles.hugepages.part import pools_found
from numaforge.roles.hugepages.plan import with_pools
from numaforge.roles.kubelet.effect import Effect, effect
from numaforge.roles.role import kubelet as role

if TYPE_CHECKING:
    from numaforge.change.goal import Goal
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.kubelet.plan import KubeletPlan

NAME = "kubelet"
_STATE_FILES = (CPU_STATE_FILE, MEMORY_STATE_FILE)
_STOP_SECONDS = 120  # systemd gives a unit 90 s to stop
_UNIT_FOLDERS = ("/etc/systemd/", "/run/systemd/", "/usr/lib/systemd/", "/lib/systemd/")


def nothing_to_do(plan: NodePlan) -> tuple[str, str] | None:
    """Return the event and the sentence for a host without a kubelet; None where there is one."""
    if plan.kubelet is not None:
        return None
    return "without-kubelet", "no kubelet on this host and none in the profile: nothing to configure"


def look(goal: Goal) -> Look:
    """Return the state files to read; the part `files` covers everything else that the kubelet reads."""
    kubelet, install = goal.plan.kubelet, goal.machine.kubelet
    if kubelet is None:
        return Look()
    return Look(
        files=tuple(f"{kubelet.root_dir}/{name}" for name in _STATE_FILES),
        known=tuple(install.state_files.values()) if install else (),
    )


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part for the kubelet and its state files; None where nothing changes.

    Raises KubeletConfigError for a configuration under which it would not start, HostError for a host that
    has no way to query its health.
    """
    kubelet = goal.plan.kubelet
    if kubelet is None:
        return None
    expected = effect_on(goal, kubelet, state)
    restarting_parts = [part.name for part in below if part.restarts_kubelet]
    written = {change.path for part in below for change in part.changed}
    kubelet_files = {file.path for file in goal.plan.files if file.role == "kubelet"} | {kubelet.edited_file}
    if not (written & kubelet_files or restarting_parts or expected.removals):
        return None
    require_start(expected.after)
    state.require_roots(f"{kubelet.root_dir}/{name}" for name in _STATE_FILES)
    unit = state.unit()
    if unit.active_state is None:
        return None
    changes = expected.needs_restart or bool(restarting_parts)
    restart = unit.runs and changes
    url = health_url(expected.after.effective)
    if restart and url and not unit.askers:
        raise HostError(
            "has none of curl, python3, wget and bash, with which to see whether the kubelet comes up",
            remedy="install one of them",
        )
    return part(
        kubelet.unit,
        invalid_state=expected.invalid,
        kept_state=tuple(
            path for name in _STATE_FILES if (path := f"{kubelet.root_dir}/{name}") not in expected.invalid
        ),
        health=url,
        restart=restart,
        unit_files=any(path.startswith(_UNIT_FOLDERS) for path in written) and (restart or not unit.runs),
        start_seconds=goal.start_seconds,
        stable_seconds=goal.stable_seconds,
        sentences=_sentences(expected, unit, restart, restarting_parts),
        disturbs=changes,
    )


def part(
    unit: str,
    *,
    invalid_state: Sequence[str] = (),
    kept_state: Sequence[str] = (),
    health: tuple[str, int] | None = ("127.0.0.1", 10248),
    restart: bool = True,
    unit_files: bool = False,
    start_seconds: int = 120,
    stable_seconds: int = 10,
    sentences: Sequence[str] = (),
    disturbs: bool = False,
) -> Part:
    """Return the part that restarts the kubelet; without `restart` it is neither stopped nor started.

    `disturbs`: its next start, whenever that is, differs with the change: pods outlive a stopped kubelet, and
    a removed state file holds their CPUs. `invalid_state` are the state files that the new settings make
    unreadable, whether they exist or not; `kept_state` are the others, restored when the change fails.
    `health` is the address and port of its healthz, None where it serves none. `unit_files`: systemd must
    reload every unit, which may take the GPUs from running containers.

    With the change the kubelet must come up twice, since it must be able to read what it wrote itself. It is
    up when, within `start_seconds`, it is healthy and its resource managers run; the second time, and both
    times where its managers did not run before, the process must stay healthy for `stable_seconds`.
    """
    address, port = health or ("", "")
    once = _STOP_SECONDS + start_seconds
    return Part(
        NAME,
        sentences=tuple(sentences),
        data={"invalid-state": lines(*map(line, invalid_state)), "kept-state": lines(*map(line, kept_state))},
        settings={
            "KUBELET_UNIT": unit,
            "KUBELET_RESTART": "yes" if restart else "",
            "KUBELET_UNIT_FILES": "yes" if unit_files else "",
            "START_SECONDS": str(start_seconds),
            "STABLE_SECONDS": str(stable_seconds),
            "HEALTH_HOST": address,
            "HEALTH_PORT": str(port),
        },
        drains=restart or disturbs or unit_files,
        only_pods=not unit_files,
        apply_seconds=2 * once + stable_seconds,
        undo_seconds=once + stable_seconds,
        units=(unit,),
    )


def health_url(config: Mapping[str, object]) -> tuple[str, int] | None:
    """Return the address and port of healthz in this effective configuration, None where it is off."""
    port = config.get("healthzPort", 10248)
    if not isinstance(port, int) or not port:
        return None
    address = str(config.get("healthzBindAddress") or "127.0.0.1")
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 (compared, not bound)
    return (f"[{address}]" if ":" in address else address), port


def machines(goal: Goal, state: NodeState) -> tuple[NodeTopology, NodeTopology]:
    """Return the machine with the huge pages that it has now, and as it is with the plan."""
    machine = with_pools(goal.machine, pools_found(goal, state))
    return machine, goal.as_planned(machine)


def effect_on(goal: Goal, kubelet: KubeletPlan, state: NodeState) -> Effect:
    """Return what the planned files make of the kubelet of a node in this state."""
    drop_ins = {path: state.files[path].text for path in state.drop_ins if path in state.files}
    state_files = {
        name: text for name in _STATE_FILES if (text := state.text(f"{kubelet.root_dir}/{name}")) is not None
    }
    config = state.text(kubelet.config_file)
    files = goal.files_of(role, state.text(kubelet.edited_file))
    machine, after = machines(goal, state)
    return effect(goal.plan, machine, after, files, config, drop_ins, state_files)


def _sentences(
    expected: Effect, unit: Unit, restart: bool, restarting_parts: Sequence[str]
) -> tuple[str, ...]:
    removals = [f"{path} is removed: {reason}" for path, reason in expected.removals.items()]
    if restart:
        causes = [*expected.changed_settings, *restarting_parts] or ["its state files"]
        return (*removals, f"the kubelet restarts, because this changes: {', '.join(causes)}")
    if unit.runs:
        return (*removals, "the kubelet's effective settings stay the same: it is not restarted")
    return (*removals, f"the kubelet is {unit.active_state}, not running: configured, and not started")
