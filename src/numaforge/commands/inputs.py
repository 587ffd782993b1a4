"""Read the input of commands about a kubelet: configuration, pods, devices, state files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from numaforge.lib.errors import KubeletConfigError, NumaforgeError
from numaforge.lib.given import NotJsonError, parse_json, read_text
from numaforge.lib.kubelet_paths import DROP_IN_DIR, ROOT_DIR
from numaforge.report.terminal import remark

if TYPE_CHECKING:
    from numaforge.cluster.explain.claims import ClaimWorld
    from numaforge.cluster.explain.placing import Placing
    from numaforge.cluster.explain.pod_sets import PodSets
    from numaforge.commands.as_planned import GivenKubelet
    from numaforge.kubelet.admission.device_manager import Device
    from numaforge.kubelet.admission.fit import Scenario
    from numaforge.kubelet.admission.node import Admission
    from numaforge.kubelet.admission.pod import Pod
    from numaforge.kubelet.findings import Report
    from numaforge.machine.topology.model import NodeTopology

MOST_CLUSTER_MIB = 256
"""Limit of a saved cluster: 300 nodes with 50 pods each have 150 MiB."""

MOST_DEVICES = 4096
"""Limit of devices of one resource: 16 GPUs with 256 replicas each."""

_OF_KUBERNETES = re.compile("^(apiVersion|kind):", re.MULTILINE)
_STATE_FILES = {
    "cpu_manager_state": "cpu_manager_state",
    "memory_manager_state": "memory_manager_state",
    "kubelet_internal_checkpoint": "device-plugins/kubelet_internal_checkpoint",
}


def read_config(machine: NodeTopology, given: GivenKubelet) -> Report:
    """Return `check`'s report on the given file, else on the machine's own configuration; it has to start."""
    from numaforge.kubelet.config.loading import below
    from numaforge.kubelet.findings import require_start
    from numaforge.kubelet.startup.check import check
    from numaforge.kubelet_minors.versions import LATEST_MINOR

    installed, flags = machine.kubelet, given.flags
    drop_ins = {} if given.drop_in is None else read_drop_ins(given.drop_in)
    if given.config is not None:
        text = read_settings(given.config)
    elif installed is not None and installed.config_text is not None:
        text = installed.config_text
        drop_ins = drop_ins or below(installed.config_dir or DROP_IN_DIR, installed.drop_ins)
        flags = flags or installed.flags
    else:
        raise KubeletConfigError(
            "the machine comes without a kubelet configuration", remedy="name the file: --config FILE"
        )
    version = given.kubelet_version or (installed.version if installed else None) or f"1.{LATEST_MINOR}"
    report = check(text, drop_ins=drop_ins, flags=flags, topology=machine, version=version)
    require_start(report, given.config or machine.hostname)
    return report


def read_settings(path: str) -> str:
    """Return the text of a kubelet's configuration; refuses a plan and a machine."""
    text = read_text(path, error=KubeletConfigError)
    if other_kind := _other_kind(text):
        kind, option = other_kind
        raise KubeletConfigError(
            f"is a {kind}, and no kubelet configuration",
            where=path,
            remedy=f"give it as {option} {path}"
            + (", beside the --machine that it is for" if option == "--plan" else ""),
        )
    return text


def _other_kind(text: str) -> tuple[str, str] | None:
    """Return whether a document is a numaforge plan or machine, and the option that takes it."""
    from numaforge.lib.strict_yaml import MOST_MIB, read_yaml
    from numaforge.machine.snapshot.model import KIND
    from numaforge.machine.topology.saved import is_plan

    try:
        if text.lstrip().startswith("{"):
            document = parse_json(text)
        elif len(text) > MOST_MIB * 2**20 or _OF_KUBERNETES.search(text):
            return None
        else:
            document = read_yaml(text, "")
    except (NotJsonError, NumaforgeError):  # left to the kubelet's own error
        return None
    if is_plan(document):
        return "plan", "--plan"
    is_machine = isinstance(document, dict) and ("packages" in document or document.get("kind") == KIND)
    return ("machine", "--machine") if is_machine else None


def read_drop_ins(folder: str) -> dict[str, str]:
    """Return the texts in the folder of --config-dir by relative path."""
    root = Path(folder)
    if not root.is_dir():
        raise KubeletConfigError("not a folder", where=folder, remedy="name the folder of --config-dir")
    files = sorted(path for path in root.rglob("*") if path.is_file())
    # The kubelet opens only .conf files.
    texts = {path: read_text(path, error=KubeletConfigError) for path in files if path.suffix == ".conf"}
    return {str(path.relative_to(root)): texts.get(path, "") for path in files}


def read_state(folder: str, *, required: bool = True) -> dict[str, str]:
    """Return the kubelet's state files below its root directory, by name; at least one if `required`."""
    present = {name: Path(folder) / file_name for name, file_name in _STATE_FILES.items()}
    texts = {name: read_text(path) for name, path in present.items() if path.is_file()}
    if required and not texts:
        raise NumaforgeError(
            f"holds none of {', '.join(_STATE_FILES)}",
            where=folder,
            remedy=f"name the kubelet's root directory, such as {ROOT_DIR}",
        )
    return texts


def read_devices(path: str, machine: NodeTopology) -> dict[str, tuple[Device, ...]]:
    """Return the devices that a file lists by resource; refuses too many, and unknown NUMA nodes."""
    from numaforge.kubelet.admission.device_manager import DeviceError, read_inventory
    from numaforge.kubelet.admission.pod import is_extended
    from numaforge.lib.strict_yaml import MOST_MIB, read_yaml

    document = read_yaml(read_text(path, most_mib=MOST_MIB), path)
    try:
        devices = read_inventory(document)
    except DeviceError as error:
        raise error.at(path) from error
    node_ids = {node.id for node in machine.numa_nodes}
    for resource, listed in devices.items():
        where = f"{path}: {resource}"
        if not is_extended(resource):
            raise NumaforgeError(
                f"{resource!r} is not a resource name of a device plugin",
                where=path,
                remedy="write it with its domain, such as nvidia.com/gpu",
            )
        if len(listed) > MOST_DEVICES:
            raise NumaforgeError(
                f"{len(listed)} devices are more than the {MOST_DEVICES} that are judged", where=where
            )
        for node in sorted({node for one in listed for node in one.numa_nodes or ()} - node_ids):
            raise NumaforgeError(
                f"the machine has no NUMA node {node}",
                where=where,
                remedy=f"write one of {', '.join(map(str, sorted(node_ids)))}, or null for near none",
            )
    return devices


class GivenPods(NamedTuple):
    """What files hold: pods, or the names of removed ones, claim objects, constraints on nodes by pod."""

    operations: tuple[Pod | str, ...]
    claims: ClaimWorld
    placings: Mapping[str, Placing]

    def unselected(self, pod: Pod, scenario: Scenario) -> Admission | None:
        """Return the scheduler's refusal where the labels of a node contradict a pod's, else None."""
        from numaforge.cluster.explain.node_claims import NodeClaims
        from numaforge.kubelet.admission.demand import qos_class
        from numaforge.kubelet.admission.node import UNSCHEDULABLE, Admission

        claims = scenario.claims
        placing = self.placings[pod.name]
        if not isinstance(claims, NodeClaims) or claims.is_selected_by(placing):
            return None
        message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
        if unlike := claims.unlike(placing):
            message = f"{message} ({unlike})"
        return Admission(pod.name, False, qos_class(pod), UNSCHEDULABLE, message)


def read_pods(paths: Sequence[str], *, replicas: bool = False) -> GivenPods:
    """Return what YAML files hold; with `replicas`, a Deployment of three is three pods, else one."""
    from numaforge.cluster.explain.claims import claim_world

    objects: list[Mapping[str, Any]] = []
    placings: dict[str, Placing] = {}
    operations = tuple(_operations(paths, objects, placings, replicas=replicas))
    return GivenPods(operations, claim_world(objects), placings)


def _operations(
    paths: Sequence[str], objects: list[Mapping[str, Any]], placings: dict[str, Placing], *, replicas: bool
) -> Iterator[Pod | str]:
    """Yield pods, and the names of removed ones; adds to `objects` claim objects, to `placings` the pods'."""
    from numaforge.cluster.explain.claims import is_of_claims
    from numaforge.cluster.explain.placing import placing_of
    from numaforge.cluster.explain.pod_sets import REMOVE, documents_of, name_without_pods, pod_sets

    for path in paths:
        if path != "-" and not Path(path).exists():
            problem = "cannot be read: No such file or directory"
            remedy = "--machine names a machine, an argument a file with pods"
            raise NumaforgeError(problem, where=path, remedy=remedy)
        has_pods = False
        without_pods: list[str] = []
        for number, document in enumerate(documents_of(read_documents(path), path)):
            if is_of_claims(document):
                objects.append(document)
                continue
            if set(document) == {REMOVE}:
                has_pods = True
                yield str(document[REMOVE])
                continue
            try:
                sets = pod_sets(document, Path(path).stem, number)
                without_pods += [] if sets else [name_without_pods(document)]
                for pods in sets:
                    for pod, spec in _pods_of(path, pods, replicas=replicas):
                        has_pods = True
                        placings[pod.name] = placing_of(spec, pod.name)
                        yield pod
            except NumaforgeError as error:
                raise error.at(path) from error
        if not has_pods:
            named = f": {', '.join(without_pods)}" if without_pods else ""
            raise NumaforgeError(f"holds no pod{named}", where=path)
        remark_passed_over(path, without_pods)


def _pods_of(path: str, pods: PodSets, *, replicas: bool) -> Iterator[tuple[Pod, Mapping[str, Any]]]:
    """Yield the pods of each set, else the first of each, with their spec, named without "default"."""
    from numaforge.kubelet.admission.pod import Pod

    for note in pods.notes:
        remark(f"{path}: {_short(pods.name)}, not judged: {note}")
    for pod_set in pods.sets:
        if not pod_set.names:
            continue
        metadata = {**pod_set.metadata, "name": "pod"}
        first = Pod.from_manifest({"metadata": metadata, "spec": pod_set.spec}, _short(pod_set.names[0]))
        names = pod_set.names if replicas else (pods.name,)
        yield from ((first.renamed(_short(name)), pod_set.spec) for name in names)


def _short(name: str) -> str:
    return name.removeprefix("default/")


def read_documents(path: str) -> list[Any]:
    """Return the documents of a file for a cluster; remark on repeated keys."""
    from numaforge.lib.strict_yaml import MOST_MIB, read_manifests

    documents, repeated = read_manifests(read_text(path, most_mib=MOST_MIB), path)
    for key_path in repeated:
        remark(f"{path}, {key_path}")
    return documents


def remark_passed_over(path: str, documents: Sequence[str]) -> None:
    """Name in one line the documents of a file without pods."""
    if documents:
        remark(f"{path}: passed over, without pods: {', '.join(documents)}")
