"""Whether the kubelet starts with the plan: `numaforge kubelet check` of the planned host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from numaforge.findings import Finding, Severity
from numaforge.kubelet.config.loading import EMPTY_CONFIG, below
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check
from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Notice
from numaforge.machine.topology.model import KubeletInstall, NodeTopology
from numaforge.roles.host.plan import UNIFIED
from numaforge.roles.hugepages.plan import WantedPages, with_pools
from numaforge.roles.kubelet.delivery import KIND, merge, without
from numaforge.roles.kubelet.effect import flags_after

if TYPE_CHECKING:
    from numaforge.roles.kubelet.plan import KubeletPlan

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # only programs read it

# Findings that planning reports itself, as a notice of the plan.
_SAID_BY_PLANNING = {
    "NF505": "uneven-smt",
    "NF506": "reserved-part-of-core",
    "NF508": "fewer-cpus-than-gpus",
    "NF515": "reserved-cpu-overruled",
    "NF516": "many-hints",
    "NF523": "cpus-isolated",
}

# single-numa-node rejects what is larger than a NUMA node: the plan's largest pods give the numbers.
_SAID_BY_LARGEST_PODS = "NF510"

_TAKE_V1 = "failCgroupV1: false in the kubelet's own file"

# How to change the profile after a refusal: the field and the remedy.
_IN_A_PROFILE = {
    "NF117": ("kernel.cmdline", f"add {UNIFIED} to it, with maintenance.reboot: allowed, or set {_TAKE_V1}"),
    "NF204": ("tuning.swap", "set tuning.swap: off, or set failSwapOn: false in the kubelet's own file"),
}


def judge_startup(
    topology: NodeTopology,
    kubelet: KubeletPlan,
    hugepages: WantedPages,
    notice_ids: Collection[str],
    *,
    swap_off: bool,
    cgroup_v2: bool,
) -> tuple[Notice, ...]:
    """Return the startup check's warnings as notices, except what the plan has `notice_ids` already, by id.

    `hugepages` are the wanted pages by NUMA node; `cgroup_v2`: the next boot brings cgroup v2. An unreadable
    configuration is not checked, nor are the managers' state files: the maintenance removes those that no
    longer fit. Raises PlanError where the kubelet would not start.
    """
    install = topology.kubelet
    if install and install.config_file in topology.unreadable:
        return ()
    machine = with_pools(topology, hugepages)
    if swap_off:
        machine = replace(machine, swap_bytes=0)
    if cgroup_v2:
        machine = replace(machine, cgroup_version=2)
    report = _report(machine, kubelet, install)
    if not report.starts:
        raise _refusal(report)
    return tuple(
        Notice(finding.id, _sentence(finding))
        for finding in report.findings
        if finding.severity is Severity.WARNING
        and finding.id != _SAID_BY_LARGEST_PODS
        and _SAID_BY_PLANNING.get(finding.id) not in notice_ids
    )


def _report(machine: NodeTopology, kubelet: KubeletPlan, install: KubeletInstall | None) -> Report:
    flags = flags_after(install, kubelet)
    drop_ins = dict(install.drop_ins) if install else {}
    text = (install and install.config_text) or EMPTY_CONFIG
    if kubelet.drop_in is not None:
        drop_ins[kubelet.drop_in] = _yaml({**KIND, **kubelet.settings})
    if kubelet.drop_in is None or kubelet.retired:
        patch = kubelet.settings if kubelet.drop_in is None else {}
        text = _yaml(merge(without(yaml.safe_load(text) or {}, kubelet.retired), {**KIND, **patch}))
    return check(
        text,
        topology=machine,
        version=kubelet.version,
        drop_ins=below(kubelet.config_dir, drop_ins) if kubelet.config_dir else {},
        flags=flags,
        config_path=kubelet.config_file,
        root_dir=kubelet.root_dir,
    )


def _yaml(settings: Mapping[str, Any]) -> str:
    text: str = yaml.dump(settings, Dumper=_DUMPER)
    return text


def _refusal(report: Report) -> PlanError:
    fatal = next((finding for finding in report.findings if finding.severity is Severity.ERROR), None)
    location = f"kubelet configuration: {fatal.where}" if fatal and fatal.where else "kubelet"
    remedy = fatal.remedy if fatal else "run `numaforge kubelet check` on this host"
    location, remedy = _IN_A_PROFILE.get(fatal.id if fatal else "", (location, remedy))
    return PlanError(
        f"kubelet {report.version} would not start: {fatal.evidence if fatal else report.error}",
        where=location,
        remedy=remedy,
    )


def _sentence(finding: Finding) -> str:
    where = f"{finding.where}: " if finding.where else ""
    return f"{where}{finding.evidence}: {finding.remedy}"
