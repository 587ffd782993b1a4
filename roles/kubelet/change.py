"""What a change of the kubelet's files means: would it start, has it to restart, which state files go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numaforge.kubelet.startup import check as check_startup

from numaforge.bundle import FileContent
from numaforge.errors import KubeletConfigError
from numaforge.kubelet.checkpoints import CPU_STATE_FILE, MEMORY_STATE_FILE, state_files_to_remove
from numaforge.kubelet.findings import Report
from numaforge.planning.model import KubeletPlan, NodePlan
from numaforge.topology.model import HugepagePool, KubeletInstall, NodeTopology

# The findings that say a state file cannot be restored under an otherwise good configuration.
_UNREADABLE = {"NF301": CPU_STATE_FILE, "NF302": MEMORY_STATE_FILE}


@dataclass(frozen=True)
class Outlook:
    """The kubelet before and after: `before` is what it is set to run with now, None if not known.

    `removals` maps the path of a state file to the reason why the kubelet could not read it any more.
    """

    before: Mapping[str, Any] | None
    after: Report
    removals: Mapping[str, str]

    @property
    def changed_settings(self) -> tuple[str, ...]:
        """The fields of the effective configuration that differ."""
        before = self.before or {}
        return tuple(
            name
            for name in sorted({*before, *self.after.effective})
            if before.get(name) != self.after.effective.get(name)
        )

    @property
    def needs_restart(self) -> bool:
        """Whether a running kubelet has to restart for the files to be true of it."""
        return self.before is None or bool(self.changed_settings) or bool(self.removals)


def outlook(
    plan: NodePlan,
    machine: NodeTopology,
    wanted: Sequence[FileContent],
    config_text: str | None,
    drop_ins: Mapping[str, str],
    state_files: Mapping[str, str] | None = None,
) -> Outlook:
    """Compare the kubelet's configuration as it is with the one that `wanted` files make.

    `config_text` and `drop_ins` are the files as they are now; `state_files` maps a state file's name to its
    text.
    """
    kubelet = _kubelet(plan)
    install = machine.kubelet or KubeletInstall(kubelet.version, kubelet.unit, None, None, ())
    texts = {file.path: file.text for file in wanted}
    after_machine = _with_planned_pools(machine, plan)
    before = (
        check_startup(config_text, drop_ins, install.flags, machine, kubelet.version, {})
        if config_text is not None
        else None
    )
    known = before.effective if before and before.effective else None

    def after(state: Mapping[str, str]) -> Report:
        return check_startup(
            texts.get(kubelet.config_file, config_text),
            {**drop_ins, **{path: texts[path] for path in [kubelet.drop_in] if path in texts}},
            _flags_after(install, kubelet),
            after_machine,
            kubelet.version,
            state,
        )

    removals = {
        removal.path: removal.reason
        for removal in state_files_to_remove(
            known,
            after({}).effective,
            hugepages_changed=_pools(machine) != _pools(after_machine),
            root_dir=kubelet.root_dir,
        )
    }
    remaining = {
        name: text
        for name, text in (state_files or {}).items()
        if f"{kubelet.root_dir}/{name}" not in removals
    }
    report = after(remaining)
    while unreadable := [
        finding for finding in report.findings if _UNREADABLE.get(finding.rule) in remaining
    ]:
        for finding in unreadable:
            name = _UNREADABLE[finding.rule]
            removals[f"{kubelet.root_dir}/{name}"] = finding.message
            remaining.pop(name, None)
        report = after(remaining)
    present = {f"{kubelet.root_dir}/{name}" for name in state_files or {}}
    return Outlook(known, report, {path: reason for path, reason in removals.items() if path in present})


def check(expected: Outlook) -> None:
    """Refuse a configuration under which the kubelet would not start.

    Raises KubeletConfigError with the kubelet's own words.
    """
    report = expected.after
    if report.starts:
        return
    finding = next((finding for finding in report.findings if finding.severity == "error"), None)
    raise KubeletConfigError(
        f"kubelet {report.version} would not start with this configuration: "
        f"{report.error or (finding.message if finding else 'see the findings of numaforge check')}",
        where=finding.path if finding else None,
        remedy=finding.remedy if finding else None,
    )


def _kubelet(plan: NodePlan) -> KubeletPlan:
    if plan.kubelet is None:
        raise KubeletConfigError(
            "there is no kubelet in the plan", remedy="name kubelet.version in the profile"
        )
    return plan.kubelet


def _flags_after(install: KubeletInstall, kubelet: KubeletPlan) -> tuple[str, ...]:
    if kubelet.exec_start is None or install.config_dir is not None:
        return install.flags
    return (*install.flags, f"--config-dir={kubelet.config_dir}")


def _with_planned_pools(machine: NodeTopology, plan: NodePlan) -> NodeTopology:
    """Return the machine as it is once the plan's hugepage pools are filled."""
    planned = {node.id: node.hugepages for node in plan.numa_nodes}
    return replace(
        machine,
        numa_nodes=tuple(
            replace(
                node,
                hugepages={
                    **node.hugepages,
                    **{size: HugepagePool(pages, pages) for size, pages in planned.get(node.id, {}).items()},
                },
            )
            for node in machine.numa_nodes
        ),
    )


def _pools(machine: NodeTopology) -> dict[tuple[int, str], int]:
    return {
        (node.id, size): pool.total for node in machine.numa_nodes for size, pool in node.hugepages.items()
    }
