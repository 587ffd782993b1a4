"""What the kubelet withholds from pods: reserved resources, eviction thresholds, and their sum.

Sources: parseResourceList in cmd/kubelet/app/server.go, pkg/kubelet/eviction/helpers.go,
pkg/kubelet/cm/node_container_manager_linux.go and helpers.go.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from math import isnan
from typing import NamedTuple

from numaforge.kubelet_minors.values.durations import DurationError, parse_duration
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.numbers import NumberError, float32, parse_float32
from numaforge.lib.quantity import ZERO, Quantity, QuantityError

_RESERVABLE = frozenset({"cpu", "memory", "ephemeral-storage", "pid"})
_MEMORY_SIGNAL = "memory.available"
_OLD_SIGNALS = frozenset(
    {
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "allocatableMemory.available",
        "pid.available",
    }
)
_FIRST_MINOR_WITH_CONTAINERFS = 29
# From this minor on reserved CPUs are rounded to thousandths.
_FIRST_MINOR_OF_ROUNDED_CPUS = 37
# NaN converted to int64 on amd64: the kubelet accepts `nan%`.
_NO_NUMBER = -(2**63)


class ReservationError(ValueError):
    """A rejected reservation or threshold; the message is the kubelet's, `key` the key in the map."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


class Threshold(NamedTuple):
    """An eviction threshold: a quantity, or a share of the capacity as the kubelet's float32."""

    quantity: Quantity | None
    share: float = 0.0

    def of(self, capacity: Quantity) -> Quantity:
        """Return the threshold in the capacity's unit."""
        if self.quantity is not None:
            return self.quantity
        bytes_kept = float(capacity.ceiling()) * self.share
        return Quantity(Fraction(_NO_NUMBER if isnan(bytes_kept) else int(bytes_kept)), "BinarySI")


def parse_reserved(reserved: Mapping[str, str], minor: int) -> dict[str, Quantity]:
    """Return kubeReserved or systemReserved as quantities.

    Raises ReservationError with the message after `--kube-reserved value failed to parse: `.
    """
    quantities = {name: _reserved_quantity(name, text) for name, text in sorted(reserved.items())}
    if "cpu" in quantities and minor >= _FIRST_MINOR_OF_ROUNDED_CPUS:
        quantities["cpu"] = quantities["cpu"].rounded_to_milli()
    return quantities


def parse_thresholds(thresholds: Mapping[str, str], minor: int) -> dict[str, Threshold]:
    """Return thresholds by signal; `0%` and `100%` mean no threshold. Raises ReservationError."""
    parsed = {}
    for signal, text in sorted(thresholds.items()):
        _require_signal(signal, minor)
        if text in ("0%", "100%"):
            continue
        parsed[signal] = _threshold(signal, text)
    return parsed


def check_soft_thresholds(
    soft: Mapping[str, str], grace_periods: Mapping[str, str], reclaims: Mapping[str, str], minor: int
) -> None:
    """Raise ReservationError where the eviction manager rejects soft thresholds, periods or reclaims."""
    thresholds = parse_thresholds(soft, minor)
    for signal, text in sorted(grace_periods.items()):
        _require_signal(signal, minor)
        _check_grace_period(signal, text)
    for signal, text in sorted(reclaims.items()):
        _require_signal(signal, minor)
        _check_reclaim(signal, text)
    for signal in thresholds:
        if signal not in grace_periods:
            raise ReservationError(
                f"grace period must be specified for the soft eviction threshold {signal}", signal
            )


def node_reservation(
    kube: Mapping[str, Quantity],
    system: Mapping[str, Quantity],
    hard: Mapping[str, Threshold],
    capacity: Mapping[str, Quantity],
) -> dict[str, Quantity]:
    """Return the reserved amount of each resource in the capacity (GetNodeAllocatableReservation).

    Only memory includes an eviction threshold: file system capacity is unknown before the kubelet runs.
    """
    reservation = {}
    for name, total_capacity in capacity.items():
        total = system.get(name, ZERO).plus(kube.get(name, ZERO))
        if name == "memory" and _MEMORY_SIGNAL in hard:
            total = total.plus(hard[_MEMORY_SIGNAL].of(total_capacity))
        if total.amount:
            reservation[name] = total
    return reservation


def beyond_capacity(
    reservation: Mapping[str, Quantity], capacity: Mapping[str, Quantity]
) -> tuple[str, str] | None:
    """Return the first resource reserved beyond the capacity and the kubelet's message, or None."""
    names = [name for name in sorted(reservation) if capacity[name].amount < reservation[name].amount]
    if not names:
        return None
    complaints = " ".join(
        f'Resource "{name}" has a reservation of {reservation[name].structure()} but capacity of '
        f"{capacity[name].structure()}. Expected capacity >= reservation."
        for name in names
    )
    return names[0], f"invalid Node Allocatable configuration. {complaints}"


def _reserved_quantity(name: str, text: str) -> Quantity:
    if name not in _RESERVABLE:
        raise ReservationError(f"cannot reserve {quoted(name)} resource", name)
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        raise ReservationError(
            f"failed to parse quantity {quoted(text)} for {quoted(name)} resource: {error}", name
        ) from error
    if quantity.amount < 0:
        raise ReservationError(f'resource quantity for "{name}" cannot be negative: {text}', name)
    return quantity


def _require_signal(signal: str, minor: int) -> None:
    is_signal = signal in _OLD_SIGNALS
    if minor >= _FIRST_MINOR_WITH_CONTAINERFS:
        is_signal = is_signal or signal in ("containerfs.available", "containerfs.inodesFree")
    if not is_signal:
        raise ReservationError(f"unsupported eviction signal {signal}", signal)


def _threshold(signal: str, text: str) -> Threshold:
    if text.endswith("%"):
        share = _percentage(signal, text)
        if share < 0:
            raise ReservationError(f"eviction percentage threshold {signal} must be >= 0%: {text}", signal)
        if share > 1:
            raise ReservationError(f"eviction percentage threshold {signal} must be <= 100%: {text}", signal)
        return Threshold(None, share)
    quantity = _quantity(signal, text)
    if quantity.amount <= 0:
        raise ReservationError(f"eviction threshold {signal} must be positive: {quantity}", signal)
    return Threshold(quantity)


@contextmanager
def _about(signal: str) -> Iterator[None]:
    """Raise what a value's parser refuses as a ReservationError."""
    try:
        yield
    except (NumberError, QuantityError, DurationError) as error:
        raise ReservationError(str(error), signal) from error


def _percentage(signal: str, text: str) -> float:
    with _about(signal):
        return float32(parse_float32(text.rstrip("%")) / 100)


def _quantity(signal: str, text: str) -> Quantity:
    with _about(signal):
        return Quantity.parse(text)


def _check_grace_period(signal: str, text: str) -> None:
    with _about(signal):
        period = parse_duration(text)
    if period.nanoseconds < 0:
        raise ReservationError(
            f"invalid eviction grace period specified: {text}, must be a positive value", signal
        )


def _check_reclaim(signal: str, text: str) -> None:
    if text.endswith("%"):
        if _percentage(signal, text) <= 0:
            raise ReservationError(
                f"eviction percentage minimum reclaim {signal} must be positive: {text}", signal
            )
        return
    if _quantity(signal, text).amount < 0:
        raise ReservationError(f"negative eviction minimum reclaim specified for {signal}", signal)
