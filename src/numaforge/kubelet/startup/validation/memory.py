"""Validation of memory: swap, reservations, throttling."""

from numaforge.kubelet.startup.validation.refusals import CompleteConfig, Refusals, invalid, one_of
from numaforge.kubelet_minors.values.gotext import quoted, shown_float
from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.lib.quantity import Quantity

# The default before _FIRST_MINOR_OF_OPTIONAL_FACTOR, still accepted while MemoryQoS is off.
_FORMER_FACTOR = 0.9
_FIRST_MINOR_OF_OPTIONAL_FACTOR = 37


def swap(config: CompleteConfig) -> Refusals:
    behavior = (config.settings.get("memorySwap") or {}).get("swapBehavior", "")
    if not config.gate("NodeSwap"):
        if behavior:
            yield invalid("NF115", "swap")
        return
    if config.minor <= 29:
        behaviors, accepted = ("LimitedSwap", "UnlimitedSwap"), '"", "LimitedSwap", or "UnlimitedSwap"'
    else:
        behaviors, accepted = ("NoSwap", "LimitedSwap"), '"", "LimitedSwap" or "NoSwap"'
    if behavior not in ("", *behaviors):
        yield invalid("NF111", "swap", behavior=quoted(behavior), accepted=accepted)


def reserved_memory(config: CompleteConfig) -> Refusals:
    earlier: set[tuple[int, str]] = set()
    for index, entry in enumerate(config.items("reservedMemory")):
        node = entry.get("numaNode", 0)
        for name, quantity in sorted((entry.get("limits") or {}).items()):
            faults = {
                "type": name != "memory" and not in_pages(name),
                "zero": Quantity.parse(quantity).amount == 0,
                "twice": (node, name) in earlier,
            }
            for text in (text for text, applies in faults.items() if applies):
                yield invalid("NF114", text, index=index, name=name, node=node, quoted=quoted(name))
            earlier.add((node, name))


def memory_throttling(config: CompleteConfig) -> Refusals:
    factor = config.settings.get("memoryThrottlingFactor")
    if config.minor >= _FIRST_MINOR_OF_OPTIONAL_FACTOR:
        if factor not in (None, _FORMER_FACTOR) and not config.gate("MemoryQoS"):
            yield invalid("NF115", "throttling off")
    elif factor is None and config.gate("MemoryQoS"):
        yield invalid("NF115", "throttling on")
    if factor is not None and not 0 < factor <= 1:
        yield invalid("NF110", "throttling", factor=shown_float(factor))


def memory_reservation_policy(config: CompleteConfig) -> Refusals:
    field = "memoryReservationPolicy"
    if config.minor < 36:
        return
    if config.text(field) == "TieredReservation" and not config.gate("MemoryQoS"):
        yield invalid("NF115", "memory reservation")
    yield from one_of(field, ("None", "TieredReservation"))(config)
