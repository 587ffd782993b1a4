"""What the default scheduler reads of a pod besides its resources, and its filters.

pkg/scheduler/framework/plugins of Kubernetes 1.37: nodeunschedulable, nodename, tainttoleration,
nodeaffinity, nodeports; of podtopologyspread only that the node has the label; of interpodaffinity only that
pods alike keep off each other's hosts. Names, but does not judge, volumes, other affinity to pods and even
spreading.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numaforge.kubelet.admission.pod import PodError
from numaforge.kubelet_minors.values.labels import label_value_complaints, qualified_name_complaints
from numaforge.lib.given import digits, mapping, mappings
from numaforge.lib.mistakes import shown, yaml_scalar

Labels = Mapping[str, str]
HostPort = tuple[str, int]  # protocol and port

KEEPS_AWAY = ("NoSchedule", "NoExecute")
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_DEFAULT_SCHEDULER = "default-scheduler"
HOSTNAME_LABEL = "kubernetes.io/hostname"
_SPREAD = "topologySpreadConstraints"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MOST_WEIGHT = 100
_SPREADS = ("DoNotSchedule", "ScheduleAnyway")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATES = ("Equal", "Exists", "Lt", "Gt")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


@dataclass(frozen=True)
class Placing:
    """A pod's constraints on nodes, by its spec.

    `terms` are the terms of the required node affinity, None without one. `unseen` names the parts of the
    spec that no filter here reads; `scheduler` is the requested one. `spread` are labels that its node must
    have.
    """

    node_name: str | None = None
    selector: Labels = field(default_factory=dict)
    terms: tuple[Mapping[str, Any], ...] | None = None
    tolerations: tuple[Mapping[str, Any], ...] = ()
    ports: frozenset[HostPort] = frozenset()
    unseen: tuple[str, ...] = ()
    scheduler: str = _DEFAULT_SCHEDULER
    spread: tuple[str, ...] = ()
    apart: frozenset[str] = frozenset()

    @property
    def by_default(self) -> bool:
        """Whether the default scheduler places it; others may have other filters."""
        return self.scheduler == _DEFAULT_SCHEDULER

    @property
    def keys_of_terms(self) -> frozenset[str]:
        """The labels that the node affinity reads."""
        expressions = (one for term in self.terms or () for one in _listed(term, "matchExpressions"))
        return frozenset(str(expression.get("key")) for expression in expressions)

    @property
    def keys(self) -> frozenset[str]:
        """The labels that selector, affinity and spread read."""
        return self.keys_of_terms.union(self.selector, self.spread)

    def tolerates(self, taint: Mapping[str, Any]) -> bool:
        return any(tolerates(toleration, taint) for toleration in self.tolerations)

    def selects(self, labels: Labels, node: str) -> bool:
        """Return whether nodeSelector and required node affinity select a node."""
        if any(labels.get(key) != value for key, value in self.selector.items()):
            return False
        return self.terms is None or any(term_selects(term, labels, node) for term in self.terms)

    def unlike(self, labels: Labels) -> str:
        """Return a node's own labels where nodeSelector or node affinity wants others; empty for its name."""
        wanted = [key for key, value in self.selector.items() if labels.get(key) != value]
        keys = [key for key in wanted or sorted(self.keys_of_terms) if key != HOSTNAME_LABEL]
        return ", ".join(f"{key} is {labels[key]}" if key in labels else f"it has no {key}" for key in keys)

    def without(self, unknown: Collection[str]) -> "Placing":
        """Return the constraints without those on unknown labels."""
        terms = [_known(term, unknown) for term in self.terms or ()]
        # A term that reads unknown labels alone may select the node, whatever the others say.
        known_terms = tuple(term for term in terms if term is not None)
        is_open = self.terms is None or len(known_terms) < len(terms)
        return replace(
            self,
            selector={key: value for key, value in self.selector.items() if key not in unknown},
            terms=None if is_open else known_terms,
            spread=tuple(key for key in self.spread if key not in unknown),
        )

    def on_other_names(self) -> "Placing":
        """Return the constraints without those on the name of the node."""
        named = frozenset({HOSTNAME_LABEL})
        terms = [
            {**term, "matchFields": []} if _listed(term, "matchFields") else term for term in self.terms or ()
        ]
        is_open = self.terms is None or any(
            _listed(term, "matchFields") and not _listed(term, "matchExpressions") for term in self.terms
        )
        return replace(self, node_name=None, terms=None if is_open else tuple(terms)).without(named)


def placing_of(spec: Mapping[str, Any], where: str, metadata: Mapping[str, Any] | None = None) -> Placing:
    """Read a pod's constraints on nodes; raises PodError for what no API server would accept."""
    affinity = _mapping(spec, "affinity", where)
    required = _mapping(_mapping(affinity, "nodeAffinity", where), _REQUIRED, where)
    _check_affinity(affinity, where)
    name = spec.get("nodeName")
    if name is not None and not isinstance(name, str):
        raise PodError(f"{name!r} is not a valid node name", where=f"{where}: nodeName")
    selector = _mapping(spec, "nodeSelector", where)
    require_texts(selector, f"{where}: nodeSelector")
    for key, value in selector.items():
        _check_label(key, value or "", f"{where}: nodeSelector")
    tolerations, spreads = _mappings(spec, "tolerations", where), _mappings(spec, _SPREAD, where)
    for toleration in tolerations:
        _refuse(_problem_of_toleration(toleration), toleration, f"{where}: tolerations")
    for constraint in spreads:
        _refuse(_problem_of_spread(constraint), constraint, f"{where}: {_SPREAD}")
    return Placing(
        node_name=name or None,
        selector={str(key): value or "" for key, value in selector.items()},
        terms=tuple(_mappings(required, "nodeSelectorTerms", where)) if required else None,
        tolerations=tuple(tolerations),
        ports=frozenset(_host_ports(spec, where)),
        unseen=tuple(_unseen(spec, affinity)),
        scheduler=str(spec.get("schedulerName") or _DEFAULT_SCHEDULER),
        spread=tuple(
            str(one.get("topologyKey")) for one in spreads if one.get("whenUnsatisfiable") == _SPREADS[0]
        ),
        apart=frozenset(_apart(affinity, metadata or {}, where)),
    )


def _apart(affinity: Mapping[str, Any], metadata: Mapping[str, Any], where: str) -> Iterator[str]:
    """Yield a name for each group of pods, this one among them, of which required terms put one on a host."""
    labels = mapping(metadata.get("labels"))
    for term in _mappings(_mapping(affinity, "podAntiAffinity", where), _REQUIRED, where):
        selector = term.get("labelSelector")
        if (
            term.get("topologyKey") == HOSTNAME_LABEL
            and isinstance(selector, Mapping)
            and not term.keys() & {"namespaces", "namespaceSelector"}
            and all(labels.get(key) == value for key, value in mapping(selector.get("matchLabels")).items())
            and all(_holds(expression, labels) for expression in _listed(selector, "matchExpressions"))
        ):
            yield f"{metadata.get('namespace')}: {json.dumps(selector, sort_keys=True, default=str)}"


def _check_affinity(affinity: Mapping[str, Any], where: str) -> None:
    """Refuse the affinity that the API server refuses (pkg/apis/core/validation, validateAffinity)."""
    of_nodes = _mapping(affinity, "nodeAffinity", where)
    terms = _mappings(_mapping(of_nodes, _REQUIRED, where), "nodeSelectorTerms", where)
    if of_nodes.get(_REQUIRED) is not None and not terms:
        raise PodError("needs a term", where=f"{where}: {_REQUIRED}.nodeSelectorTerms")
    preferences = [_mapping(one, "preference", where) for one in _mappings(of_nodes, _PREFERRED, where)]
    for term in (*terms, *preferences):
        fields = _mappings(term, "matchFields", where)
        for expression in (*_mappings(term, "matchExpressions", where), *fields):
            _check_expression(expression, where)
        for field_name in (shown(one.get("key")) for one in fields if one.get("key") != "metadata.name"):
            problem = f"{field_name} is not a field that nodes are selected by"
            raise PodError(problem, where=f"{where}: matchFields", remedy="write metadata.name")
    for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        of_kind = _mapping(affinity, kind, where)
        for entry in _mappings(of_kind, _PREFERRED, where):
            weight = entry.get("weight")
            if type(weight) is not int or not 1 <= weight <= _MOST_WEIGHT:
                _refuse(f"weight is {shown(weight)}: write 1 to {_MOST_WEIGHT}", {}, f"{where}: {kind}")
        for term in _mappings(of_kind, _REQUIRED, where) if kind != "nodeAffinity" else ():
            _refuse(None if term.get("topologyKey") else "topologyKey is missing", term, f"{where}: {kind}")


def _check_expression(expression: Mapping[str, Any], where: str) -> None:
    """Refuse what the API server refuses (pkg/apis/core/validation, ValidateNodeSelectorRequirement)."""
    values, operator = expression.get("values") or [], expression.get("operator")
    if not isinstance(values, list):
        raise PodError("must be a list", where=f"{where}: nodeSelectorTerms.values")
    problem, remedy = "", None
    if operator not in _OPERATORS:
        problem = f"{shown(operator)} is not an operator of node affinity"
        remedy = f"write one of {', '.join(_OPERATORS)}"
    elif operator in ("Exists", "DoesNotExist") and values:
        problem, remedy = f"{operator} takes no values", "leave values out, or write In or NotIn"
    elif operator in ("In", "NotIn") and not values:
        problem, remedy = f"{operator} needs values", "name one or more in values"
    elif operator in ("Gt", "Lt") and len(values) != 1:
        problem, remedy = f"{operator} needs exactly one value", "name one number in values"
    else:
        _check_label(expression.get("key"), "", f"{where}: nodeSelectorTerms")
        require_texts(dict(enumerate(values)), f"{where}: nodeSelectorTerms: {expression.get('key')}: values")
    if problem:
        raise PodError(problem, where=f"{where}: nodeSelectorTerms: {expression.get('key')}", remedy=remedy)


def require_texts(values: Mapping[Any, Any], where: str) -> None:
    """Raise PodError for a value that is no text: the API server decodes numbers and booleans into none."""
    for key, value in values.items():
        if value is not None and not isinstance(value, str):
            text = yaml_scalar(value)
            raise PodError(
                f"{text} is not a text", where=f"{where}: {key}", remedy=f'write it in quotes: "{text}"'
            )


def _check_label(key: object, value: str, where: str) -> None:
    """Raise PodError for a label that no node can have (apimachinery, ValidateLabels)."""
    if qualified_name_complaints(str(key)):
        raise PodError(f"{shown(key)} is not the name of a label", where=where, remedy="write [DOMAIN/]NAME")
    if label_value_complaints(value):
        raise PodError(
            f"{shown(value)} is not the value of a label",
            where=f"{where}: {key}",
            remedy="write at most 63 letters, digits, -, _ and ., with a letter or digit at both ends",
        )


def _problem_of_toleration(toleration: Mapping[str, Any]) -> str | None:
    """Return why the API server refuses a toleration (pkg/apis/core/validation, ValidateTolerations)."""
    operator, effect = toleration.get("operator") or "Equal", toleration.get("effect")
    if operator not in _TOLERATES:
        return f"{shown(operator)} is not an operator: write one of {', '.join(_TOLERATES)}"
    if operator == "Exists" and toleration.get("value"):
        return "Exists takes no value: leave it out, or write Equal"
    if not toleration.get("key") and operator != "Exists":
        return "without a key the operator has to be Exists"
    if effect and effect not in _EFFECTS:
        return f"{shown(effect)} is not an effect: write one of {', '.join(_EFFECTS)}, or none for all"
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        return "tolerationSeconds needs the effect NoExecute"
    return None


def _problem_of_spread(constraint: Mapping[str, Any]) -> str | None:
    """Return why the API server refuses a constraint (validateTopologySpreadConstraints)."""
    skew, action = constraint.get("maxSkew"), constraint.get("whenUnsatisfiable")
    if type(skew) is not int or skew < 1:
        return f"maxSkew is {shown(skew)}: write a number from 1 on"
    if action not in _SPREADS:
        return f"whenUnsatisfiable is {shown(action)}: write one of {', '.join(_SPREADS)}"
    if constraint.get("minDomains") is not None and action != _SPREADS[0]:
        return f"minDomains needs whenUnsatisfiable: {_SPREADS[0]}"
    return None if constraint.get("topologyKey") else "topologyKey is missing"


def _refuse(problem: str | None, entry: Mapping[str, Any], where: str) -> None:
    if problem:
        raise PodError(
            problem, where=f"{where}: {entry.get('key') or entry.get('topologyKey') or 'an entry'}"
        )


def present_labels(labels: Mapping[str, str | None]) -> dict[str, str]:
    """Return a node's labels, without those that it is known to lack."""
    return {key: value for key, value in labels.items() if value is not None}


def cordon_aside(taints: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the taints that keep pods away, except that of a cordon."""
    return [
        taint for taint in taints if taint.get("effect") in KEEPS_AWAY and taint.get("key") != CORDON["key"]
    ]


def shown_taint(taint: Mapping[str, Any]) -> str:
    """Return a taint as kubectl writes it: `key=value:effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Return whether a toleration covers a taint, of a node or of a device.

    k8s.io/component-helpers/scheduling/corev1, ToleratesTaint; comparisons of numbers are alpha.
    """
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    operator = str(toleration.get("operator") or "Equal")
    if operator == "Exists":
        return True
    same = str(toleration.get("value") or "") == str(taint.get("value") or "")
    return operator == "Equal" and bool(toleration.get("key")) and same


def term_selects(term: Mapping[str, Any], labels: Labels, node: str) -> bool:
    """Return whether a term's requirements all hold; an empty term selects nothing."""
    expressions, fields = _listed(term, "matchExpressions"), _listed(term, "matchFields")
    if not expressions and not fields:
        return False
    return all(_holds(expression, labels) for expression in expressions) and all(
        _holds(field, {"metadata.name": node}) for field in fields
    )


def _known(term: Mapping[str, Any], unknown: Collection[str]) -> Mapping[str, Any] | None:
    """Return a term without the requirements for unknown labels; None where it has no others."""
    expressions = _listed(term, "matchExpressions")
    known = [expression for expression in expressions if str(expression.get("key")) not in unknown]
    if len(known) == len(expressions):
        return term
    return {**term, "matchExpressions": known} if known or _listed(term, "matchFields") else None


def _holds(requirement: Mapping[str, Any], labels: Labels) -> bool:
    """k8s.io/apimachinery/pkg/labels, Requirement.Matches."""
    key, operator = str(requirement.get("key")), str(requirement.get("operator"))
    values = [str(value) for value in requirement.get("values") or ()]
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    if operator in ("Gt", "Lt") and len(values) == 1:
        number, limit = digits(labels.get(key)), digits(values[0])
        if number is None or limit is None:
            return False
        return number > limit if operator == "Gt" else number < limit
    return False


def _host_ports(spec: Mapping[str, Any], where: str) -> Iterator[HostPort]:
    for container in (*_mappings(spec, "containers", where), *_mappings(spec, "initContainers", where)):
        for port in _mappings(container, "ports", where):
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else None)
            if type(number) is int and number > 0:
                yield str(port.get("protocol") or "TCP"), number


def _unseen(spec: Mapping[str, Any], affinity: Mapping[str, Any]) -> Iterator[str]:
    if affinity.get("podAffinity") or affinity.get("podAntiAffinity"):
        yield "affinity to other pods"
    if spec.get(_SPREAD):
        yield "topology spread"
    if any(
        volume.keys() & {"persistentVolumeClaim", "ephemeral"} for volume in mappings(spec.get("volumes"))
    ):
        yield "volumes"
    if spec.get("priorityClassName"):
        yield "preemption of pods of lower priority"
    if spec.get("schedulingGates"):
        yield "scheduling gates, which hold it back"


def _mapping(document: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    section = document.get(key) or {}
    if not isinstance(section, Mapping):
        raise PodError("must be a mapping", where=f"{where}: {key}")
    return section


def _mappings(document: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    entries = document.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise PodError("must be a list of mappings", where=f"{where}: {key}")
    return entries


def _listed(term: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    return term.get(key) or ()
