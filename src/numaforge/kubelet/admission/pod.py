"""A pod as the kubelet receives it: containers with requests and limits, defaulted as the API server does."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any, TypeVar

from numaforge.kubelet_minors.values.labels import qualified_name_complaints
from numaforge.kubelet_minors.values.pages import in_pages, size_of
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import mapping, mappings
from numaforge.lib.mistakes import shown
from numaforge.lib.quantity import parse_quantity

CPU = "cpu"
MEMORY = "memory"
UNNAMED = "pod"  # the name of a manifest without one
_POD_LEVEL = (CPU, MEMORY)
_STANDARD = (CPU, MEMORY, "ephemeral-storage")
_RESOURCE_FIELDS = ("limits", "requests", "claims")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")

Quantities = Mapping[str, Fraction]
Amount = TypeVar("Amount", int, Fraction)


class PodError(NumaforgeError):
    """A manifest is not a pod that an API server would accept."""


@dataclass(frozen=True)
class Container:
    """One container; quantities are exact, CPU in cores, everything else in its own unit.

    `init` marks an init container, `restartable` a sidecar (an init container with restartPolicy Always).
    """

    name: str
    requests: Quantities = field(default_factory=dict)
    limits: Quantities = field(default_factory=dict)
    init: bool = False
    restartable: bool = False

    @property
    def whole_cpus(self) -> int:
        """The requested CPUs if they are a whole number, else 0 (isIntegralCPUAmount)."""
        cpus = self.requests.get(CPU)
        return integer_of(cpus) if cpus is not None else 0


@dataclass(frozen=True)
class ClaimRef:
    """An entry of a pod's `resourceClaims`: a claim, or a template for one of its own, by full names.

    A full name is NAMESPACE/NAME.
    """

    name: str
    claim: str | None = None
    template: str | None = None


@dataclass(frozen=True)
class Pod:
    """A pod; `containers` holds the init containers first, in their order, then the app containers.

    `requests` and `limits` are the pod-level resources, None where the pod has none. `claims` are
    served by the scheduler: no kubelet refuses a pod for them.
    """

    name: str
    containers: tuple[Container, ...]
    requests: Quantities | None = None
    limits: Quantities | None = None
    overhead: Quantities = field(default_factory=dict)
    claims: tuple[ClaimRef, ...] = ()

    @property
    def init_containers(self) -> tuple[Container, ...]:
        """Return the init containers, sidecars included."""
        return tuple(container for container in self.containers if container.init)

    @property
    def app_containers(self) -> tuple[Container, ...]:
        return tuple(container for container in self.containers if not container.init)

    @property
    def has_pod_level_resources(self) -> bool:
        """Whether the pod itself names CPU, memory or hugepages (IsPodLevelResourcesSet)."""
        return any(is_pod_level(resource) for resource in [*(self.requests or ()), *(self.limits or ())])

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], name: str | None = None) -> "Pod":
        """Read a Pod, anything with a pod template (Deployment, Job, ...), or a bare pod spec.

        Requests default to limits as the API server does it (pkg/apis/core/v1/defaults.go, SetDefaults_Pod).
        Raises PodError naming the field for a quantity or a structure that an API server would refuse.
        """
        metadata, spec = pod_parts(manifest)
        where = name or _qualified_name(metadata) or UNNAMED
        containers = [
            *(
                _container(c, f"{where}: initContainers[{i}]", init=True)
                for i, c in _items(spec, "initContainers", where)
            ),
            *(
                _container(c, f"{where}: containers[{i}]", init=False)
                for i, c in _items(spec, "containers", where)
            ),
        ]
        if all(container.init for container in containers):
            raise PodError("a pod needs at least one container", where=f"{where}: containers")
        names = [container.name for container in containers]
        if len(set(names)) != len(names):
            raise PodError("two containers have the same name", where=f"{where}: containers")
        for container in () if spec.get("resources") else containers:
            if any(map(in_pages, container.requests)) and not any(map(container.requests.get, _POD_LEVEL)):
                problem = f"asks for huge pages without {CPU} or {MEMORY}"
                raise PodError(problem, where=f"{where}: {container.name}", remedy=f"name {MEMORY}, too")
        overhead = _quantities(spec.get("overhead"), f"{where}: overhead")
        claims = claim_refs(spec, str(metadata.get("namespace") or "default"), where)
        pod = cls(where, tuple(containers), overhead=overhead, claims=claims)
        resources = spec.get("resources")
        return pod if resources is None else _with_pod_level_resources(pod, resources)

    def renamed(self, name: str) -> "Pod":
        """Return the same pod under another name."""
        return replace(self, name=name)

    def asking(self, container: Container, values: Quantities) -> "Pod":
        """Return the pod with other amounts in a container's requests and limits."""
        requests, limits = (
            {name: values.get(name, amount) for name, amount in amounts.items()}
            for amounts in (container.requests, container.limits)
        )
        changed = replace(container, requests=requests, limits=limits)
        return replace(self, containers=tuple(changed if c is container else c for c in self.containers))


def claim_refs(
    spec: Mapping[str, Any], namespace: str, where: str, made: Mapping[str, str] | None = None
) -> tuple[ClaimRef, ...]:
    """Parse a pod's `resourceClaims`; `made` maps its own names to the claims created from its templates.

    Raises PodError for what an API server would refuse (validatePodResourceClaims).
    """
    refs: dict[str, ClaimRef] = {}
    listed = spec.get("resourceClaims") or []
    if not isinstance(listed, list) or len(mappings(listed)) != len(listed):
        raise PodError("must be a list of mappings", where=f"{where}: resourceClaims")
    for number, entry in enumerate(listed):
        at = f"{where}: resourceClaims[{number}]"
        source = entry.get("source") or entry  # v1alpha2
        name = entry.get("name")
        if not isinstance(name, str) or not name or not isinstance(source, Mapping):
            raise PodError("a claim needs a name", where=f"{at}.name")
        if name in refs:
            raise PodError(f"two claims have the name {name!r}", where=f"{at}.name")
        claim, template = (source.get(f"resourceClaim{key}") for key in ("Name", "TemplateName"))
        if bool(claim) == bool(template):
            remedy = "write resourceClaimName or resourceClaimTemplateName"
            raise PodError("names neither or both of a claim and a template", where=at, remedy=remedy)
        if (created := (made or {}).get(name)) and not claim:
            claim, template = created, None
        full = (f"{namespace}/{created}" if created else None for created in (claim, template))
        refs[name] = ClaimRef(name, *full)
    _check_claims_of_containers(spec, refs, where)
    return tuple(refs.values())


def _check_claims_of_containers(spec: Mapping[str, Any], claims: Collection[str], where: str) -> None:
    """Raise PodError for a container that names a claim which its pod does not have."""
    for key in ("initContainers", "containers"):
        for number, container in enumerate(mappings(spec.get(key))):
            for claim in mappings(mapping(container.get("resources")).get("claims")):
                if str(claim.get("name")) not in claims:
                    raise PodError(
                        f"names the claim {shown(claim.get('name'))}, which the pod does not have",
                        where=f"{where}: {key}[{number}].resources.claims",
                        remedy="list it under the pod's resourceClaims",
                    )


def shape_of_pod(pod: Pod, *, names: bool = True) -> Hashable:
    """Return what a kubelet reads of a pod: equal for pods that get the same answer.

    Without `names`, container names do not count. A pod with empty pod-level resources differs from one
    without any: only they decide its QoS class.
    """
    containers = tuple(
        (
            container.name if names else None,
            _in_order(container.requests),
            _in_order(container.limits),
            container.init,
            container.restartable,
        )
        for container in pod.containers
    )
    return containers, _in_order(pod.requests), _in_order(pod.limits), _in_order(pod.overhead)


def _in_order(quantities: Quantities | None) -> Hashable:
    return None if quantities is None else tuple(sorted(quantities.items()))


def integer_of(quantity: Fraction) -> int:
    """Return a quantity as an integer if its thousandths round to one, else 0."""
    value = ceil(quantity)
    return value if value * 1000 == ceil(quantity * 1000) else 0


def is_pod_level(resource: str) -> bool:
    """Whether a resource may be named for a whole pod (IsSupportedPodLevelResource)."""
    return resource in _POD_LEVEL or in_pages(resource)


def is_extended(resource: str) -> bool:
    """Whether a resource belongs to a device plugin or another vendor, such as `nvidia.com/gpu`."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def aggregate(containers: Iterable[tuple[Container, Mapping[str, Amount]]]) -> dict[str, Amount]:
    """Return what a pod needs at any one time, given each container's share.

    k8s.io/component-helpers/resource/helpers.go, AggregateContainerRequests: the sum over app containers and
    sidecars, or the largest init container plus the sidecars started before it, whichever is more.
    """
    running: dict[str, Amount] = {}
    sidecars: dict[str, Amount] = {}
    peak: dict[str, Amount] = {}
    for container, quantities in containers:
        if not container.init or container.restartable:
            _add(running, quantities)
        if not container.init:
            continue
        if container.restartable:
            _add(sidecars, quantities)
            needed = dict(sidecars)
        else:
            needed = dict(quantities)
            _add(needed, sidecars)
        _raise_to(peak, needed)
    _raise_to(running, peak)
    return running


def pod_requests(pod: Pod, *, pod_level: bool = True) -> dict[str, Fraction]:
    """Return what counts against the node: containers, pod-level resources, overhead (PodRequests)."""
    requests = aggregate((container, container.requests) for container in pod.containers)
    if pod_level:
        requests.update((r, q) for r, q in (pod.requests or {}).items() if is_pod_level(r))
    _add(requests, pod.overhead)
    return requests


def pod_limits(pod: Pod) -> dict[str, Fraction]:
    """Return the limits of the pod as a whole, without overhead (PodLimits)."""
    limits = aggregate((container, container.limits) for container in pod.containers)
    if pod.has_pod_level_resources:
        limits.update((r, q) for r, q in (pod.limits or {}).items() if is_pod_level(r))
    return limits


def _add(total: dict[str, Amount], more: Mapping[str, Amount]) -> None:
    for resource, quantity in more.items():
        total[resource] = total[resource] + quantity if resource in total else quantity


def _raise_to(total: dict[str, Amount], floor: Mapping[str, Amount]) -> None:
    for resource, quantity in floor.items():
        if resource not in total or quantity > total[resource]:
            total[resource] = quantity


def pod_parts(manifest: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if not isinstance(manifest, Mapping):
        raise PodError("not a pod: the document is not a mapping")
    if "containers" in manifest:
        return {}, manifest
    metadata = manifest.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise PodError(f"{shown(metadata)} is not a mapping", where="metadata", remedy="write {name: NAME}")
    spec = manifest.get("spec")
    while isinstance(spec, Mapping) and "containers" not in spec:
        inner = spec.get("template") or spec.get("jobTemplate")
        if not isinstance(inner, Mapping):
            break
        spec = inner.get("spec")
    if not isinstance(spec, Mapping) or "containers" not in spec:
        title = f" {name!r}" if (name := metadata.get("name")) else ""
        raise PodError(
            f"{manifest.get('kind', 'document')}{title} holds no pod: neither "
            "spec.containers nor a pod template",
            remedy="give a Pod, a Deployment, a StatefulSet, a DaemonSet, a Job or a CronJob",
        )
    return metadata, spec


def _qualified_name(metadata: Mapping[str, Any]) -> str | None:
    name = metadata.get("name")
    namespace = metadata.get("namespace", "default")
    if not name:
        return None
    return str(name) if namespace == "default" else f"{namespace}/{name}"


def _items(spec: Mapping[str, Any], key: str, where: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    listed = spec.get(key) or []
    if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
        raise PodError("must be a list of containers", where=f"{where}: {key}")
    return enumerate(listed)


def _container(document: Mapping[str, Any], where: str, *, init: bool) -> Container:
    resources = document.get("resources") or {}
    if not isinstance(resources, Mapping):
        raise PodError("must be a mapping with requests and limits", where=f"{where}.resources")
    name, policy = document.get("name"), document.get("restartPolicy")
    if not isinstance(name, str) or not name:
        raise PodError("a container needs a name", where=f"{where}.name")
    if policy not in (None, *_RESTART_POLICIES):
        remedy = f"write one of {', '.join(_RESTART_POLICIES)}"
        raise PodError(f"{shown(policy)} is not a restartPolicy", where=where, remedy=remedy)
    strays = [key for key in document if key in _RESOURCE_FIELDS or "/" in str(key)]
    strays += [f"resources.{key}" for key in resources if key not in _RESOURCE_FIELDS]
    for stray in strays:
        remedy = "write resources: {limits: {RESOURCE: AMOUNT}}"
        raise PodError(f"{shown(stray)} is not a field of a container", where=where, remedy=remedy)
    limits = _quantities(resources.get("limits"), f"{where}.resources.limits")
    requests = _quantities(resources.get("requests"), f"{where}.resources.requests")
    _check_pair(requests, limits, f"{where}.resources")
    return Container(
        name=name,
        requests={**limits, **requests},
        limits=limits,
        init=init,
        restartable=init and policy == "Always",
    )


def _quantities(document: Any, where: str) -> dict[str, Fraction]:
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise PodError("must map resources to quantities", where=where)
    return {str(resource): _quantity(value, f"{where}.{resource}") for resource, value in document.items()}


def _quantity(value: Any, where: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PodError(f"{value!r} is not a Kubernetes quantity", where=where)
    try:
        quantity = parse_quantity(str(value))
    except NumaforgeError as error:
        raise PodError(error.message, where=where, remedy=error.remedy) from error
    if quantity < 0:
        raise PodError(f"{value!r} is negative", where=where, remedy="a request or limit is 0 or more")
    return quantity


def _check_name(resource: str, where: str) -> None:
    """Raise PodError for a resource that no container can have (validateContainerResourceName)."""
    problem, remedy = "", ""
    if "/" not in resource and resource not in _STANDARD and not in_pages(resource):
        problem = "not a Kubernetes resource"
        remedy = "write that of a device plugin with its domain, such as nvidia.com/gpu"
    elif resource.startswith("requests."):
        problem = "its name in a ResourceQuota"
        remedy = f"write {resource.removeprefix('requests.')}"
    elif "/" in resource and qualified_name_complaints(resource):
        problem = "not the name of an extended resource"
        remedy = "write DOMAIN/NAME, such as nvidia.com/mig-1g.10gb.me: the domain in small letters"
    if problem:
        raise PodError(f"{resource} is {problem}", where=where, remedy=remedy)


def _check_pair(requests: Quantities, limits: Quantities, where: str) -> None:
    """Raise PodError where the API server does (pkg/apis/core/validation, ValidateResourceRequirements)."""
    for resource in (*requests, *limits):
        _check_name(resource, where)
    for resource, request in requests.items():
        limit = limits.get(resource)
        if (is_extended(resource) or in_pages(resource)) and limit is None:
            raise PodError(
                f"{resource} is requested without a limit",
                where=f"{where}.limits",
                remedy=f"it cannot be overcommitted: write {resource} under limits",
            )
        if limit is None:
            continue
        if request > limit:
            raise PodError(
                f"requests {resource} {_as_number(request)}, more than its limit of {_as_number(limit)}",
                where=f"{where}.requests.{resource}",
                remedy="lower the request or raise the limit",
            )
        if request != limit and (is_extended(resource) or in_pages(resource)):
            raise PodError(
                f"requests {resource} {_as_number(request)} with a limit of {_as_number(limit)}",
                where=f"{where}.requests.{resource}",
                remedy=f"{resource} cannot be overcommitted: request and limit must be equal",
            )
    for resource, limit in limits.items():
        if is_extended(resource) and limit.denominator != 1:
            raise PodError(f"{_as_number(limit)} is not a whole number", where=f"{where}.limits.{resource}")
        if in_pages(resource) and limit % (_quantity(size_of(resource), f"{where}.limits.{resource}") or 1):
            problem = f"{_as_number(limit)} is not a multiple of the page size"
            raise PodError(problem, where=f"{where}.limits.{resource}")


def _as_number(quantity: Fraction) -> str:
    return str(quantity.numerator) if quantity.denominator == 1 else f"{float(quantity):g}"


def _with_pod_level_resources(pod: Pod, resources: Any) -> Pod:
    """Default the pod-level resources (defaultHugePagePodLimits and defaultPodRequests)."""
    where = f"{pod.name}: resources"
    if not isinstance(resources, Mapping):
        raise PodError("must be a mapping with requests and limits", where=where)
    limits = _quantities(resources.get("limits"), f"{where}.limits")
    requests = _quantities(resources.get("requests"), f"{where}.requests")
    if others := [name for name in (*requests, *limits) if not is_pod_level(name)]:
        problem = f"{others[0]} is not a resource of a whole pod"
        raise PodError(problem, where=where, remedy="move it to a container")
    if limits or requests:
        for resource, limit in aggregate((c, c.limits) for c in pod.containers).items():
            if in_pages(resource) and resource not in requests:
                limits.setdefault(resource, limit)
    if limits:
        for resource, request in aggregate((c, c.requests) for c in pod.containers).items():
            if resource in _POD_LEVEL:
                requests.setdefault(resource, request)
        requests = {**limits, **requests}
    _check_pair(requests, limits, where)
    _check_pod_level(pod, requests, where)
    return replace(pod, requests=requests, limits=limits)


def _check_pod_level(pod: Pod, requests: Quantities, where: str) -> None:
    """Refuse what the API server refuses (pkg/apis/core/validation, validatePodResources)."""
    needed = aggregate((container, container.requests) for container in pod.containers)
    for resource, amount in requests.items():
        if amount < needed.get(resource, 0):
            problem = f"requests {resource} {_as_number(amount)}, less than its containers"
            raise PodError(problem, where=where, remedy=f"write {_as_number(needed[resource])} at least")
