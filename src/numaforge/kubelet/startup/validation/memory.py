"""Validation of memory: swap, reservations, throttling."""

from numaforge.kubelet.startup.validation.refusals import CompleteConfig, Refusals, invalid
from numaforge.kubelet_minors.values.gotext import quoted, shown_float
from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.lib.quantity import Quantity


def swap(config: CompleteConfig) -> Refusals:
    swap = config.settings.get("memorySwap") or {}
    behavior = swap.get("swapBehavior", "")
    remedy = "use LimitedSwap, or leave it out for no swap"
    if not config.gate("NodeSwap"):
        if behavior:
            yield invalid(
                "NF115",
                "memorySwap.swapBehavior",
                "memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled",
                "enable the feature gate NodeSwap, or remove memorySwap",
            )
        return
    if config.minor <= 29:
        allowed, shown = ("LimitedSwap", "UnlimitedSwap"), '"", "LimitedSwap", or "UnlimitedSwap"'
    else:
        allowed, shown = ("NoSwap", "LimitedSwap"), '"", "LimitedSwap" or "NoSwap"'
    if behavior not in ("", *allowed):
        text = f"memorySwap.swapBehavior {quoted(behavior)} must be one of: {shown}"
        yield invalid("NF111", "memorySwap.swapBehavior", text, remedy)


def reserved_memory(config: CompleteConfig) -> Refusals:
    earlier: set[tuple[int, str]] = set()
    for index, entry in enumerate(config.items("reservedMemory")):
        node = entry.get("numaNode", 0)
        for name, quantity in sorted((entry.get("limits") or {}).items()):
            path = f"reservedMemory[{index}].limits.{name}"
            if name != "memory" and not in_pages(name):
                yield invalid(
                    "NF114",
                    path,
                    f"the limit type {quoted(name)} for NUMA node {node} is not supported, only "
                    "[memory hugepages-<HugePageSize>] is accepted",
                    "reserve memory only",
                )
            if Quantity.parse(quantity).amount == 0:
                yield invalid(
                    "NF114",
                    path,
                    f"reserved memory may not be zero for NUMA node {node} and resource {quoted(name)}",
                    "remove the entry",
                )
            if (node, name) in earlier:
                yield invalid(
                    "NF114",
                    path,
                    f"the reserved memory has a duplicate value for NUMA node {node} and resource "
                    f"{quoted(name)}",
                    "keep one entry for each NUMA node",
                )
            earlier.add((node, name))


# The default before _FIRST_MINOR_OF_OPTIONAL_FACTOR, still accepted while MemoryQoS is off.
_FORMER_FACTOR = 0.9
_FIRST_MINOR_OF_OPTIONAL_FACTOR = 37


def memory_throttling(config: CompleteConfig) -> Refusals:
    factor = config.settings.get("memoryThrottlingFactor")
    if config.minor >= _FIRST_MINOR_OF_OPTIONAL_FACTOR:
        if factor not in (None, _FORMER_FACTOR) and not config.gate("MemoryQoS"):
            yield invalid(
                "NF115",
                "memoryThrottlingFactor",
                "memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled",
                "remove memoryThrottlingFactor, or leave the feature gate MemoryQoS on",
            )
    elif factor is None and config.gate("MemoryQoS"):
        yield invalid(
            "NF115",
            "memoryThrottlingFactor",
            "memoryThrottlingFactor is required when MemoryQoS feature flag is enabled",
            "set memoryThrottlingFactor, for example 0.9",
        )
    if factor is not None and not 0 < factor <= 1:
        yield invalid(
            "NF110",
            "memoryThrottlingFactor",
            f"memoryThrottlingFactor {shown_float(factor)} must be greater than 0 and less than or equal to "
            "1.0",
            "use a factor above 0 and up to 1",
        )


def memory_reservation_policy(config: CompleteConfig) -> Refusals:
    if config.minor < 36:
        return
    field = "memoryReservationPolicy"
    policy = config.text(field)
    if policy == "TieredReservation" and not config.gate("MemoryQoS"):
        yield invalid(
            "NF115",
            field,
            f"{field} {quoted(policy)} requires MemoryQoS feature gate to be enabled",
            "enable the feature gate MemoryQoS, or use None",
        )
    if policy not in ("None", "TieredReservation"):
        yield invalid(
            "NF111",
            field,
            f'option {quoted(policy)} specified for {field}. Valid options are "None" or "TieredReservation"',
            "use None or TieredReservation",
        )
