"""`numaforge cluster explain`: where a pod would go, why not elsewhere, and what would help."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaforge.commands.as_planned import GivenKubelet, as_plan_makes_it
from numaforge.commands.machine import (
    Planning,
    each_named,
    is_image_root,
    machines_argument,
    plan_or_machine,
    plan_with,
    planning_options,
)
from numaforge.commands.options import WITHIN_SECONDS, limit_option, login_options, output_option, path_option
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import complain, remark, show_answer

if TYPE_CHECKING:
    from numaforge.cluster.explain.candidates import GivenMachine
    from numaforge.cluster.explain.claims import ClaimWorld
    from numaforge.cluster.explain.cluster import LiveCluster, LivePod
    from numaforge.cluster.explain.workload import Workload
    from numaforge.kubelet.admission.fit import Scenario
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan


@click.command()
@click.argument("pod", metavar="POD", type=click.Path(allow_dash=True))
@machines_argument
@planning_options
@limit_option
@click.option("--live", is_flag=True, help="Ask the cluster for its nodes and pods by kubectl (read-only).")
@path_option("--cluster", "saved", help="Output of `kubectl get nodes,pods -A -o json`, instead of asking.")
@login_options
@output_option("table", "json")
def explain(
    pod: str,
    sources: tuple[str, ...],
    planning: Planning,
    limits: tuple[str, ...],
    live: bool,
    saved: str | None,
    output: str,
    **login: str | None,
) -> int:
    """Show where a pod would go, why not elsewhere, and what would help.

    POD is a file with a Pod, a workload that makes pods (Deployment, Job, JobSet, Volcano Job, PyTorchJob,
    RayCluster ...) or a PodGroup with its pods; or NAMESPACE/NAME of a pod in the cluster. MACHINEs are the
    nodes: snapshots, ready machines, hosts, or an INVENTORY; empty unless a cluster is given. Places pods of
    a group one after another, and has tried each change that it names.

    Exit codes: 0 all fit, 1 some do not.

    \b
    Examples:
      numaforge cluster explain train.yaml dgx-h100 gb200 --profile training
      numaforge cluster explain ml/train-7 fleet/
      numaforge cluster explain ml/train-7 fleet/ --cluster cluster.json
    """
    from numaforge.cluster.explain.candidates import candidates
    from numaforge.cluster.explain.explanation import explain as explained
    from numaforge.report.explain import explanation_document, explanation_lines

    if saved is not None and (live or any(login.values())):
        raise click.UsageError("--cluster is instead of asking a cluster: leave out --live and its login")
    if not sources:
        raise click.UsageError("name the nodes' machines: files, a folder of snapshots, hosts, an INVENTORY")
    is_name = _is_name(pod)
    read = (
        _cluster(saved, pod if is_name else None, login)
        if saved or live or is_name or any(login.values())
        else None
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="numaforge-")))
        machines, code = _machines(_all_named(sources, limits, folder), planning, read)
    if not machines and code:
        return code
    subject = read.pod(pod) if read and is_name else None
    workloads, world = _workloads(pod, subject, read)
    if read and saved is None and read.needs_claims(workloads):
        world = _claims(login).merged(world)
    without = frozenset({subject.uid}) if subject else frozenset[str]()
    nodes = candidates(machines, read.nodes if read else None, without, world)
    if not nodes:
        raise NumaforgeError("the cluster has no nodes", where=saved or "kubectl")
    if read and read.unread:
        remark(f"pods of the cluster that cannot be read are not counted: {read.unread}")
    answers = []
    nodes_before = nodes
    for workload in workloads:
        nodes_before = nodes_before if workload.follows else nodes
        answer, nodes = explained(workload, nodes_before)
        answers.append(answer)
    show_answer(
        output,
        lambda: {"schema": 1, "workloads": [explanation_document(answer, subject) for answer in answers]},
        lambda: [line for answer in answers for line in ("", *explanation_lines(answer, subject))][1:],
    )
    return ExitCode.YES if all(answer.fits for answer in answers) else ExitCode.NO


def _is_name(pod: str) -> bool:
    """Whether `pod` is NAMESPACE/NAME in a cluster, not a file. Raises UsageError for neither."""
    if pod == "-" or Path(pod).exists() or pod.endswith((".yaml", ".yml", ".json")):
        return False
    if pod.count("/") != 1 or not all(pod.split("/")):
        raise click.UsageError(f"{pod!r} is neither a file nor NAMESPACE/NAME of a pod")
    return True


def _workloads(
    pod: str, subject: LivePod | None, cluster: LiveCluster | None
) -> tuple[tuple[Workload, ...], ClaimWorld]:
    """Return the workloads to place, and the claim objects of the file and the cluster."""
    from numaforge.cluster.explain.claims import ClaimWorld, claim_world
    from numaforge.cluster.explain.pod_sets import documents_of
    from numaforge.cluster.explain.workload import workloads_of
    from numaforge.commands.inputs import read_documents, remark_passed_over

    world = cluster.claims if cluster else ClaimWorld()
    if subject is not None and cluster is not None:
        return (cluster.workload(subject),), world
    documents = read_documents(pod)
    reading = workloads_of(documents, pod)
    remark_passed_over(pod, reading.passed_over)
    return reading.workloads, world.merged(claim_world(documents_of(documents, pod)))


def _claims(login: Mapping[str, str | None]) -> ClaimWorld:
    """Return the cluster's claim objects by kubectl; unknown where that fails."""
    from numaforge.cluster.explain.claims import ClaimWorld, claim_world
    from numaforge.cluster.schedulers.kubectl_get import Kubectl

    try:
        documents = Kubectl(**login).claim_objects()
    except NumaforgeError as error:
        return ClaimWorld(why_unknown=error.message)
    return claim_world(documents or (), is_whole=True)


def _cluster(saved: str | None, pod: str | None, login: Mapping[str, str | None]) -> LiveCluster:
    """Return the cluster saved in a file, else as kubectl reports it, with the PodGroup of `pod`."""
    from numaforge.cluster.explain.cluster import group_stubs, read_cluster
    from numaforge.cluster.schedulers.kubectl_get import Kubectl, items_of
    from numaforge.commands.inputs import MOST_CLUSTER_MIB
    from numaforge.lib.given import read_json

    if saved is not None:
        remedy = "save what `kubectl get nodes,pods -A -o json` prints"
        document = read_json(saved, most_mib=MOST_CLUSTER_MIB, remedy=remedy)
        try:
            return read_cluster(items_of(document))
        except NumaforgeError as error:
            raise error.at(saved) from error
    documents = Kubectl(**login).listed("nodes,pods")
    cluster = read_cluster(documents)
    group = cluster.pod(pod).member.group if pod is not None else None
    stubs = group_stubs(group) if group else []
    return read_cluster(documents, Kubectl(**login).live_objects(stubs)[0].values()) if stubs else cluster


def _all_named(sources: Sequence[str], limits: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield the named machines; the hosts of inventories are captured into `folder`."""
    from numaforge.commands.capture import captured_hosts, inventories_of
    from numaforge.rollout.names import ANSWER_SECONDS

    inventories = inventories_of(sources, limits)
    for number, source in enumerate(sources):
        if source in inventories:
            within = {ANSWER_SECONDS: WITHIN_SECONDS}
            answers, files = captured_hosts(source, limits, folder / str(number), within)
            for name, why in answers.failed.items():
                remark(f"{name}: {why}")
            yield from files.values()
        else:
            yield from each_named([source])


def _machines(
    names: Iterator[str], planning: Planning, cluster: LiveCluster | None
) -> tuple[list[GivenMachine], int]:
    """Return the machines that could be read, each with its plan, and the exit code of the others."""
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profiles import load_profile

    if planning.profile is not None and not is_image_root(planning.profile):
        load_profile(planning.profile)  # what is wrong with it is wrong for every node
    hosts: dict[str, NodeTopology] = {}
    plans: dict[str, NodePlan] = {}
    code: int = ExitCode.YES
    for name in names:
        try:
            saved = plan_or_machine(name)
        except NumaforgeError as error:
            complain(f"numaforge: {error}")
            code = (
                max(code, error.exit_code) if error.exit_code == ExitCode.UNREACHABLE else ExitCode.BAD_INPUT
            )
            continue
        host = (saved.hostname or "").lower()
        if not host:
            raise NumaforgeError("snapshot has no hostname; cannot match a Node", where=name)
        same = plans if isinstance(saved, NodePlan) else hosts
        if host in same:
            raise NumaforgeError(f"{host}: several machines have this name, and a cluster takes one")
        same[host] = saved  # type: ignore[assignment]
    machines = [
        _machine(host, hosts.get(host), plans.get(host), planning, cluster)
        for host in dict.fromkeys((*hosts, *plans))
    ]
    return machines, code


def _machine(
    name: str,
    machine: NodeTopology | None,
    plan: NodePlan | None,
    planning: Planning,
    cluster: LiveCluster | None,
) -> GivenMachine:
    """Return a machine with its kubelet: as a profile or a plan makes it, else as it is."""
    from numaforge.cluster.explain.candidates import GivenMachine
    from numaforge.kubelet_minors.flags import registered_name

    if machine is None:
        return GivenMachine(name, None, why_unknown="a plan alone has no cores: give its snapshot beside it")
    installed = machine.kubelet
    name = registered_name(installed.flags if installed else (), name)
    state = dict(installed.state_files) if installed and cluster else {}
    try:
        if planning.profile is not None:
            plan = plan_with(machine, planning.profile, planning.kubelet_version)
        if plan is None:
            return _as_it_is(name, machine, planning.kubelet_version, state)
        return _given_machine(name, as_plan_makes_it(machine, plan, state).scenario(name), plan)
    except NumaforgeError as error:
        return GivenMachine(name, None, why_unknown="; ".join(map(str.strip, str(error).splitlines())))


def _as_it_is(
    name: str, machine: NodeTopology, kubelet_version: str | None, state: Mapping[str, str]
) -> GivenMachine:
    from numaforge.commands.inputs import read_config
    from numaforge.kubelet.admission.fit import Scenario
    from numaforge.kubelet.admission.inventory import inventory_as_it_is
    from numaforge.planning.document import saved_plan
    from numaforge.roles.device_plugin.plan import devices_of

    report = read_config(machine, GivenKubelet(kubelet_version=kubelet_version))
    plan = saved_plan(machine)
    devices = devices_of(machine, plan) if plan else inventory_as_it_is(machine)
    scenario = Scenario(machine, dict(report.effective), devices, state or None, report.version)
    return _given_machine(name, scenario, plan)


def _given_machine(name: str, scenario: Scenario, plan: NodePlan | None) -> GivenMachine:
    """Return a machine with its Node's labels and claim objects after its plan is applied."""
    from numaforge.cluster.explain.candidates import GivenMachine
    from numaforge.cluster.explain.node_claims import as_planned

    labels, world = as_planned(name, scenario, plan)
    holders = scenario.topology.device_holders if scenario.state else None
    held: dict[str, dict[str, dict[str, set[str]]]] = {}  # by pod, container and resource, at capture
    for device in holders or ():
        if device.present:
            container = held.setdefault(device.pod, {}).setdefault(device.container, {})
            container.setdefault(device.resource, set()).add(device.device)
    given_devices = None if holders is None else held
    return GivenMachine(name, scenario, labels, given_devices=given_devices, world=world)
