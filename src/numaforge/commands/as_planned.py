"""The node that a command asks about, as a profile or a plan makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from numaforge.commands.machine import machine_of, plan_or_machine, plan_with, profile_option
from numaforge.commands.options import GroupedOption, offered
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.kubelet_paths import CONFIG_PATH
from numaforge.report.terminal import remark

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.planned_node import PlannedNode

_instead = partial(click.option, cls=GroupedOption, heading="Instead of --profile")


class AsPlanned(NamedTuple):
    """The state of the node that a question is about: by a profile or a saved plan, live, else any."""

    profile: str | None = None
    plan: str | None = None
    live: bool = False

    @property
    def planned(self) -> bool:
        """Whether the question is about the node as planned."""
        return self.profile is not None or self.plan is not None

    def require_machine(self, machine: object) -> None:
        """Raise UsageError where no argument or option names a machine."""
        if not (machine or any(self)):
            raise click.UsageError("--machine names a machine; --live means this one")

    def machine(self, source: str | None) -> NodeTopology | None:
        """Return the named machine, this one where an option means one, else None."""
        return machine_of(source, None) if source is not None or self.planned or self.live else None

    def node(
        self, machine: NodeTopology, kubelet_version: str | None, state: Mapping[str, str]
    ) -> PlannedNode:
        """Return a machine as its plan makes it; `state` has the kubelet's state files."""
        decided = self.plan_for(machine, kubelet_version)
        if self.plan is not None and decided.kubelet is not None:
            _hold_to(decided.kubelet.version, machine, self.plan, kubelet_version)
        return as_plan_makes_it(machine, decided, state)

    def plan_for(self, machine: NodeTopology, kubelet_version: str | None = None) -> NodePlan:
        """Return the profile's plan or the one in the file; a kubelet of unknown version is the newest."""
        from numaforge.kubelet_minors.versions import LATEST_MINOR

        if self.plan is not None:
            return _saved_plan(self.plan, machine)
        installed = machine.kubelet is not None and machine.kubelet.version is not None
        newest = None if installed else f"1.{LATEST_MINOR}"
        return plan_with(machine, str(self.profile), kubelet_version or newest)


def as_planned_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Offer `--profile`, `--plan` and `--live`; the command gets `node`."""

    @wraps(command)
    def called(*, profile: str | None, plan: str | None, live: bool, **others: Any) -> Any:
        if live and (profile is not None or plan is not None):
            raise click.UsageError("--live is the node as it is now: leave out --profile and --plan")
        if profile is not None and plan is not None:
            raise click.UsageError("give --profile or --plan, not both")
        return command(node=AsPlanned(profile, plan, live), **others)

    return offered(
        profile_option,
        _instead("--plan", metavar="FILE", type=click.Path(), help="Saved plan of this machine."),
        _instead("--live", is_flag=True, help="The node as it is now [default: this machine]."),
    )(called)


def as_plan_makes_it(machine: NodeTopology, plan: NodePlan, state: Mapping[str, str]) -> PlannedNode:
    """Return a machine as its plan makes it; `state` has the kubelet's state files."""
    from numaforge.planning.planned_node import planned_node
    from numaforge.planning.render import files_of
    from numaforge.roles.role import kubelet

    return planned_node(machine, plan, files_of(kubelet, plan, machine.edited_kubelet_text), state)


def _saved_plan(plan: str, machine: NodeTopology) -> NodePlan:
    """Return the plan in a file; remark on GPUs of it that the machine lacks."""
    from numaforge.planning.plan import NodePlan

    remedy = "give what `numaforge plan -o json` has written"
    if plan != "-" and not Path(plan).exists():
        raise NumaforgeError("the file does not exist", where=plan, remedy=remedy)
    saved = plan_or_machine(plan)
    if not isinstance(saved, NodePlan):
        raise NumaforgeError("is no plan", where=plan, remedy=remedy)
    if machine.hostname and saved.hostname != machine.hostname:
        raise NumaforgeError(
            f"is the plan of {saved.hostname}, and the machine is {machine.hostname}",
            where=plan,
            remedy="give the plan and the snapshot of one host",
        )
    if strange := saved.cpus.reserved - machine.online - machine.offline:
        raise NumaforgeError(f"reserves CPU {min(strange)}, which the machine lacks", where=plan)
    missing = []
    for gpu in saved.mig.gpus:
        present = [one.uuid for one in machine.gpus if one.pci_address == gpu.pci_address]
        if gpu.uuid not in present and not (present and None in (gpu.uuid, *present)):
            missing.append(gpu.pci_address)
    if missing:
        remark(f"{plan}: it cuts GPUs that are not there now ({', '.join(missing)}); plan again")
    return saved


def _hold_to(planned: str, machine: NodeTopology, plan: str, version: str | None) -> None:
    """Refuse a --kubelet-version of another minor than the plan's; remark on another installed minor."""
    from numaforge.kubelet_minors.versions import KubeletVersion

    minor = KubeletVersion.parse(planned).minor
    if version is not None and KubeletVersion.parse(version).minor != minor:
        raise NumaforgeError(
            f"is for kubelet {planned}, and --kubelet-version says {version}",
            where=plan,
            remedy="leave --kubelet-version out, or plan for that kubelet",
        )
    installed = machine.kubelet.version if machine.kubelet else None
    if installed is not None and version is None and KubeletVersion.parse(installed).minor != minor:
        mismatch = f"it is for kubelet {planned}, and {installed} is installed: judged by {planned}"
        remark(f"{plan}: {mismatch}; plan again")


class GivenKubelet(NamedTuple):
    """What a command takes in place of the machine's own kubelet: its files, flags, version and state."""

    config: str | None = None
    drop_in: str | None = None
    flags: tuple[str, ...] = ()
    kubelet_version: str | None = None
    state_dir: str | None = None

    def on(self, machine: NodeTopology) -> NodeTopology:
        """Return a machine with the given configuration, drop-ins and flags."""
        from numaforge.commands.inputs import read_drop_ins, read_settings
        from numaforge.machine.topology.model import KubeletInstall

        kubelet = machine.kubelet or KubeletInstall(self.kubelet_version, None, CONFIG_PATH, None, ())
        flags = self.flags or kubelet.flags
        if self.config is not None:
            text, flags = read_settings(self.config), self.flags
            kubelet = replace(kubelet, config_text=text, config_dir=None, drop_ins={})
        if self.drop_in is not None:
            texts = {f"{self.drop_in}/{name}": text for name, text in read_drop_ins(self.drop_in).items()}
            kubelet = replace(kubelet, config_dir=self.drop_in, drop_ins=texts)
            flags = (*flags, f"--config-dir={self.drop_in}")
        return replace(machine, kubelet=replace(kubelet, flags=flags))
