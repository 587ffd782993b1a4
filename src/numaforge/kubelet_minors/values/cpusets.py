"""CPU lists as the kubelet parses them, with its own errors.

Source: k8s.io/utils/cpuset. Everything else uses numaforge.lib.cpulist; the kubelet is stricter (no
spaces) and words its errors differently.
"""

from numaforge.kubelet_minors.values.numbers import NumberError, parse_int

# The kernel's largest NR_CPUS is 8192; a range such as 0-99999999999 exhausts the kubelet's memory.
_MOST_CPUS = 1 << 20


class CpuSetError(ValueError):
    """A text that the kubelet rejects as a CPU list; the message is the kubelet's."""


def parse_cpuset(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as `0-3,8`; the empty text is the empty set. Raises CpuSetError."""
    if text == "":
        return frozenset()
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = atoi(first)
        end = atoi(last) if dash else start
        if start > end:
            raise CpuSetError(f'invalid range "{part}" ({start} > {end})')
        if end - start >= _MOST_CPUS:
            raise CpuSetError(f'range "{part}" has more than {_MOST_CPUS} CPUs')
        cpus.update(range(start, end + 1))
    return frozenset(cpus)


def atoi(text: str) -> int:
    """Parse an integer as strconv.Atoi does. Raises CpuSetError with Go's message."""
    try:
        return parse_int(text, base=10, function="Atoi")
    except NumberError as error:
        raise CpuSetError(str(error)) from error
