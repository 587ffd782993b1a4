"""Feature gates as a kubelet resolves them: unknown, locked, group gates, dependencies.

Source: staging/src/k8s.io/component-base/featuregate/feature_gate.go (SetFromMap, Validate) of each minor.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from numaforge.kubelet_minors.tables import DEPENDENCIES, GATES, state_at, states_at
from numaforge.kubelet_minors.versions import KNOWN_MINORS, KubeletVersion

# Dependencies between gates are checked from this minor on.
_FIRST_MINOR_WITH_DEPENDENCIES = 35

# Before this minor the kubelet stops at the first error; from then on it collects several.
_FIRST_MINOR_WITH_SEVERAL_ERRORS = 31

_GROUPS = {"AllAlpha": "alpha", "AllBeta": "beta"}


class GateState(NamedTuple):
    """A feature gate as one kubelet minor knows it: `maturity` is alpha, beta, ga, deprecated or prealpha."""

    maturity: str
    default: bool
    locked: bool


def gate(version: KubeletVersion, name: str) -> GateState | None:
    """Return a feature gate as this kubelet knows it, or None where it is unknown or removed."""
    history = GATES.get(name)
    return None if history is None else _state_at(history, version.rules_minor)


def known_minors_of(name: str) -> tuple[int, ...]:
    """Return the kubelet minors that know a gate, in order."""
    return tuple(minor for minor in KNOWN_MINORS if gate(KubeletVersion(minor), name) is not None)


def set_gates(version: KubeletVersion, feature_gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the errors with which this kubelet rejects these featureGates; empty where it accepts them.

    The kubelet walks the map in random order and stops at the first unknown gate; here the order is by name.
    """
    errors: list[str] = []
    for name in sorted(feature_gates):
        state = gate(version, name)
        if state is None:
            return (*errors, f"unrecognized feature gate: {name}")
        if state.locked and state.default != feature_gates[name]:
            errors.append(
                f"cannot set feature gate {name} to {str(feature_gates[name]).lower()}, "
                f"feature is locked to {str(state.default).lower()}"
            )
            if version.rules_minor < _FIRST_MINOR_WITH_SEVERAL_ERRORS:
                break
    if errors or not feature_gates or version.rules_minor < _FIRST_MINOR_WITH_DEPENDENCIES:
        return tuple(errors)  # the defaults meet their dependencies
    return _unmet_dependencies(version, feature_gates)


def aggregate(errors: tuple[str, ...]) -> str:
    """Return errors as Kubernetes' aggregate prints them: deduplicated, several in brackets."""
    distinct = tuple(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def enabled(version: KubeletVersion, feature_gates: Mapping[str, bool], name: str) -> bool:
    """Whether a gate is on under these featureGates; a gate that this kubelet does not know is off."""
    state = gate(version, name)
    if state is None:
        return False
    if name in feature_gates:
        return feature_gates[name]
    group = next((group for group, maturity in _GROUPS.items() if maturity == state.maturity), None)
    return feature_gates[group] if group in feature_gates and group is not None else state.default


def _unmet_dependencies(version: KubeletVersion, feature_gates: Mapping[str, bool]) -> tuple[str, ...]:
    errors = []
    for name, needs in sorted(states_at(DEPENDENCIES, version.rules_minor).items()):
        if not enabled(version, feature_gates, name):
            continue
        missing = [need for need in needs.split() if not enabled(version, feature_gates, need)]
        if missing:
            errors.append(
                f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
            )
    return tuple(errors)


@cache
def _state_at(history: str, minor: int) -> GateState | None:
    state = state_at(history, minor)
    if state is None:
        return None
    maturity, default, *locked = state.split()
    return GateState(maturity, default == "on", bool(locked))
