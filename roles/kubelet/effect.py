"""The effect of changing the kubelet's files: whether it starts or must restart, which state files go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from numaforge.kubelet.checkpoints import CPU_STATE_FILE, MEMORY_STATE_FILE, state_files_to_remove
from numaforge.kubelet.config.loading import EMPTY_CONFIG, below
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check as check_startup
from numaforge.kubelet_minors.flags import flag_value
from numaforge.lib.errors import KubeletConfigError
from numaforge.lib.kubelet_paths import DROP_IN_DIR
from numaforge.machine.topology.model import KubeletInstall, NodeTopology
from numaforge.roles.hugepages.expected import hugepage_totals
from numaforge.roles.modules.gpu_memory import moves_memory

if TYPE_CHECKING:
    from numaforge.lib.file_content import FileContent
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.kubelet.plan import KubeletPlan

# The findings that a state file cannot be restored under an otherwise valid configuration.
_UNREADABLE = {"NF301": CPU_STATE_FILE, "NF302": MEMORY_STATE_FILE}


class Effect(NamedTuple):
    """The kubelet before and after: `before` is its current effective configuration, None if not known.

    `removals` maps the path of each state file that the kubelet could no longer read to the reason.
    `invalid` has these paths, and those of files that the running kubelet has not written yet but may write
    before it is stopped. `pools_change`: whether its huge pages change.
    """

    before: Mapping[str, Any] | None
    after: Report
    removals: Mapping[str, str]
    invalid: tuple[str, ...] = ()
    pools_change: bool = False

    @property
    def changed_settings(self) -> tuple[str, ...]:
        """The fields of the effective configuration that differ."""
        current = self.before or {}
        return tuple(
            name
            for name in sorted({*current, *self.after.effective})
            if _setting(current, name) != _setting(self.after.effective, name)
        )

    @property
    def needs_restart(self) -> bool:
        """Whether a running kubelet must restart to use the new files and pools."""
        return self.before is None or bool(self.changed_settings or self.removals or self.pools_change)


def effect(
    plan: NodePlan,
    machine: NodeTopology,
    machine_after: NodeTopology,
    planned_files: Sequence[FileContent],
    config_text: str | None,
    drop_ins: Mapping[str, str],
    state_files: Mapping[str, str],
) -> Effect:
    """Compare the kubelet's current configuration with the one from `planned_files`.

    `machine_after` is the machine once the plan is carried out. `config_text` and `drop_ins` (by path) are
    the current files; `state_files` maps a state file's name to its text.
    """
    kubelet = _kubelet(plan)
    install = machine.kubelet or KubeletInstall(kubelet.version, kubelet.unit, None, None, ())
    texts = {file.path: file.text for file in planned_files}
    new_main = texts.get(kubelet.config_file, config_text)
    new_drop_ins = {**drop_ins, **{path: text for path, text in texts.items() if path == kubelet.drop_in}}
    if kubelet.delivery == "none":
        new_drop_ins.pop(kubelet.drop_in or "", None)
    new_flags = flags_after(install, kubelet)
    pools_change = hugepage_totals(machine) != hugepage_totals(machine_after)

    def judged(state: Mapping[str, str]) -> Report:
        return _judge(kubelet, new_main, new_drop_ins, new_flags, machine_after, state)

    judged_by = state_files
    report = judged(judged_by)
    if judged_by and not report.starts:
        judged_by = {}
        report = judged(judged_by)
    before, after = (config_text, drop_ins, install.flags), (new_main, new_drop_ins, new_flags)
    same = before == after and machine == machine_after
    current = report if same else _judge(kubelet, *before, machine, {})
    removals = {
        removal.path: removal.reason
        for removal in state_files_to_remove(
            current.effective or None,
            report.effective,
            hugepages_changed=pools_change,
            memory_changed=moves_memory(machine, plan.gpu_memory),
            root_dir=kubelet.root_dir,
        )
    }
    kept_state = {name: text for name, text in state_files.items() if _path(kubelet, name) not in removals}
    if report.starts and kept_state != judged_by:
        report = judged(kept_state)
    while unreadable := [
        finding for finding in report.findings if _UNREADABLE.get(finding.id, "") in kept_state
    ]:
        for finding in unreadable:
            name = _UNREADABLE[finding.id]
            removals[_path(kubelet, name)] = finding.text or finding.evidence
            kept_state.pop(name, None)
        report = judged(kept_state)
    present = {_path(kubelet, name) for name in state_files}
    removed = {path: reason for path, reason in removals.items() if path in present}
    return Effect(current.effective or None, report, removed, tuple(removals), pools_change)


def _setting(config: Mapping[str, Any], name: str) -> Any:
    """Return a setting; an empty mapping, which reading a drop-in leaves behind, counts as None."""
    return config.get(name) or None if isinstance(config.get(name), Mapping) else config.get(name)


def _kubelet(plan: NodePlan) -> KubeletPlan:
    if plan.kubelet is None:
        raise KubeletConfigError(
            "there is no kubelet in the plan", remedy="name kubelet.version in the profile"
        )
    return plan.kubelet


def _judge(
    kubelet: KubeletPlan,
    config_text: str | None,
    drop_ins: Mapping[str, str],
    flags: tuple[str, ...],
    machine: NodeTopology,
    state_files: Mapping[str, str],
) -> Report:
    folder = flag_value(flags, "config-dir")
    return check_startup(
        config_text or EMPTY_CONFIG,
        topology=machine,
        version=kubelet.version,
        drop_ins=below(folder, drop_ins) if folder else {},
        flags=flags,
        state_files=state_files,
        config_path=kubelet.config_file,
        drop_in_dir=folder or DROP_IN_DIR,
        root_dir=kubelet.root_dir,
    )


def _path(kubelet: KubeletPlan, state_file: str) -> str:
    return f"{kubelet.root_dir}/{state_file}"


def flags_after(install: KubeletInstall | None, kubelet: KubeletPlan) -> tuple[str, ...]:
    """Return the flags, with the --config-dir that the plan's unit drop-in adds."""
    flags = install.flags if install else ()
    if kubelet.config_dir is None or flag_value(flags, "config-dir") is not None:
        return flags
    return (*flags, f"--config-dir={kubelet.config_dir}")
