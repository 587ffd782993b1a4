"""Read programs' outputs strictly: refuse a number in any unexpected form.

Each reader takes the text of one run and returns values by place; "" for a program that names no place. The
forms are those of rtla 6.1, rt-tests 2.4, stress-ng 0.15, sysbench 1.0, perftest 4.5, Intel MLC 3.9,
nvbandwidth 0.8, nccl-tests 2.13 and rocm-bandwidth-test 2.6.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps

from numaforge.lib.errors import NumaforgeError

Reader = Callable[[str], Mapping[str, float]]

_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,12})?")
_SHOWN = 60
_MOST_DEVICES = 1024


class UnreadableOutputError(NumaforgeError):
    """A program printed something other than its figures; the message quotes it."""


def refusal(text: str, expected: str) -> UnreadableOutputError:
    """Return the error for an output without what is `expected`, with the line that explains it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    complaints = [line for line in lines if _COMPLAINT.search(line) and not _PLACE_IN_SOURCE.search(line)]
    if complaints:
        clue = f"it says {_short(complaints[-1])!r}"
    else:
        clue = f"its last line is {_short(lines[-1])!r}" if lines else "it printed nothing"
    return UnreadableOutputError(f"no {expected} in what it printed; {clue}")


_PLACE_IN_SOURCE = re.compile(r"\.\w+:\d+$")
_COMPLAINT = re.compile(r"\b(error|fail(ed|ure)?|invalid|unable|cannot|could not|waived)\b", re.IGNORECASE)


def number(word: str, noun: str) -> float:
    """Return a number as programs write it in the C locale; raises UnreadableOutputError for others."""
    if not _NUMBER.fullmatch(word):
        raise UnreadableOutputError(f"{_short(word)!r} is not a valid {noun}")
    return float(word)


def complete(reader: Reader) -> Reader:
    """Make a reader refuse a text with a truncated last line: half a number is still a number."""

    @wraps(reader)
    def read(text: str) -> Mapping[str, float]:
        if text and not text.endswith("\n"):
            raise UnreadableOutputError(f"its last line is cut off: {_short(text.rpartition(chr(10))[2])!r}")
        return reader(text)

    return read


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _only(pattern: str, text: str, expected: str) -> re.Match[str]:
    """Return the one match in a text; refuse a text with none or several."""
    matches = [*re.finditer(pattern, text, re.MULTILINE)]
    if len(matches) != 1:
        raise refusal(text, expected)
    return matches[0]


@complete
def sysbench_memory(text: str) -> dict[str, float]:
    """Return the MB/s (1,000,000 bytes) of `sysbench memory`, which prints MiB/s."""
    expected = "line of sysbench such as '5120.00 MiB transferred (1024.00 MiB/sec)'"
    rate = _only(r"^\S+ MiB transferred \((\S+) MiB/sec\)$", text, expected)[1]
    return {"": number(rate, "rate of sysbench") * 2**20 / 1e6}


@complete
def stress_ng_memrate(text: str) -> dict[str, float]:
    """Return the MB/s that all instances of `stress-ng --memrate` read; it prints their mean in MiB/s."""
    form = r"^stress-ng: metrc: \[\d+\] memrate +(\S+) read64 MB per sec \(\w+ mean of (\d+) instances?\)$"
    rate, instances = _only(form, text, "line of stress-ng's memrate for read64").groups()
    return {"": number(rate, "rate of memrate") * number(instances, "count of instances") * 2**20 / 1e6}


@complete
def cyclictest(text: str) -> dict[str, float]:
    """Return the largest latency of `cyclictest -q` over its threads, in microseconds."""
    row = re.compile(r"^T: *\d+ \( *\d+\) P: *\d+ I:\d+ C: *(\d+) Min: *\S+ Act: *\S+ Avg: *\S+ Max: *(\S+)$")
    rows = [match.groups() for line in text.splitlines() if (match := row.match(line.strip()))]
    if not rows:
        raise refusal(text, "line of cyclictest such as 'T: 0 ( 42) P:95 ... Max:  31'")
    if any(cycles == "0" for cycles, _ in rows):
        raise refusal(text, "thread of cyclictest that has woken up")
    return {"": max(number(latency, "latency of cyclictest") for _, latency in rows)}


@complete
def rtla_timerlat(text: str) -> dict[str, float]:
    """Return the largest latency of a thread that `rtla timerlat top -q` has seen, in microseconds."""
    groups = (row.split("|") for row in _rtla_rows(text, "Timer Latency"))
    rows = [columns[1].split() if len(columns) > 1 else [] for columns in groups]
    if not rows or any(len(cells) != 4 for cells in rows):
        raise refusal(text, "row of rtla timerlat with cur, min, avg and max of the thread")
    return {"": max(number(cells[3], "latency of rtla") for cells in rows)}


@complete
def rtla_osnoise(text: str) -> dict[str, float]:
    """Return the share of time that `rtla osnoise top -q` found taken, in percent, on the worst CPU."""
    rows = [row.split() for row in _rtla_rows(text, "Operating System Noise")]
    if not rows or any(len(cells) != 10 for cells in rows):
        raise refusal(text, "row of rtla osnoise with the available CPU time")
    available = [number(cells[2], "share of time") for cells in rows]
    if any(share > 100.0 for share in available):
        raise UnreadableOutputError(f"{max(available)} % of a CPU's time is more than all of it")
    return {"": 100.0 - min(available)}


def _rtla_rows(text: str, title: str) -> Iterator[str]:
    """Yield what follows `CPU #COUNT` in rtla's rows."""
    if title not in text:
        raise refusal(text, f"table {title!r} of rtla")
    for row in re.finditer(r"^ *\d+ #(\d+)\b *\|?(.*)$", text, re.MULTILINE):
        if row[1] == "0":
            raise refusal(text, "CPU on which rtla has counted anything")
        yield row[2]


@complete
def mlc_latency(text: str) -> dict[str, float]:
    """Return the nanoseconds of `mlc --latency_matrix` by "FROM to TO" of NUMA nodes."""
    return _mlc_matrix(text, "Measuring idle latencies", "in ns")


@complete
def mlc_bandwidth(text: str) -> dict[str, float]:
    """Return the MB/s of `mlc --bandwidth_matrix` by "FROM to TO" of NUMA nodes."""
    return _mlc_matrix(text, "Measuring Memory Bandwidths between nodes", "MB/sec")


def _mlc_matrix(text: str, begin: str, unit: str) -> dict[str, float]:
    _, unit_line, rest = text.partition(begin)
    if not unit_line or unit not in rest:
        raise refusal(text, f"matrix of mlc in {unit}")
    lines = iter(rest.splitlines())
    columns = next((line.split()[2:] for line in lines if re.match(r"^Numa node\s+\d", line)), [])
    return {
        f"NUMA node {start}" if start == end else f"NUMA node {start} to {end}": value
        for (start, end), value in _matrix(text, columns, lines).items()
    }


@complete
def nvbandwidth_host(text: str) -> dict[str, float]:
    """Return the GB/s of a test of nvbandwidth between host and GPUs, by the GPU's number."""
    return {gpu: value for (_, gpu), value in _nvbandwidth(text).items()}


@complete
def nvbandwidth_pairs(text: str) -> dict[str, float]:
    """Return the GB/s of a test of nvbandwidth between GPUs: the least of each GPU's pairs, by its number."""
    least: dict[str, float] = {}
    for (start, end), value in _nvbandwidth(text).items():
        if start != end:  # within itself: nvbandwidth 0.1 says 0.00 there
            least[start] = min(value, least.get(start, value))
    if not least:
        raise UnreadableOutputError("the matrix has no pair of GPUs")
    return least


def _nvbandwidth(text: str) -> dict[tuple[str, str], float]:
    lines = iter(text.splitlines())
    if not any(re.match(r"^memcpy .* bandwidth \(GB/s\)$", line.strip()) for line in lines):
        raise refusal(text, "table of nvbandwidth in GB/s")
    return _matrix(text, next(lines, "").split(), lines)


@complete
def rocm_bandwidth_host(text: str) -> dict[str, float]:
    """Return the GB/s from the host's memory, the fastest NUMA node's, to each GPU by PCI address."""
    return _rocm(text, to_gpu=True)


@complete
def rocm_bandwidth_from(text: str) -> dict[str, float]:
    """Return the GB/s of rocm-bandwidth-test from each GPU to the host, by the GPU's PCI address."""
    return _rocm(text, to_gpu=False)


def _rocm(text: str, *, to_gpu: bool) -> dict[str, float]:
    devices = dict(
        re.findall(r"^ *Device: (\d+), .*, +([0-9a-f]{2}:[0-9a-f]{1,2}\.[0-7]) *$", text, re.MULTILINE)
    )
    _, heading, rest = text.partition("Unidirectional copy peak bandwidth GB/s")
    if not heading or not devices:
        raise refusal(text, "table of rocm-bandwidth-test in GB/s")
    lines = iter([line for line in rest.splitlines() if line.strip()])  # it has a blank line after each row
    columns = next((line.split()[1:] for line in lines if line.split()[:1] == ["D/D"]), [])
    best: dict[str, float] = {}
    for (start, end), value in _matrix(text, columns, lines).items():
        host, gpu = (start, end) if to_gpu else (end, start)
        if gpu in devices and host not in devices:
            bus, device, function = re.split(r"[:.]", devices[gpu])
            address = f"0000:{bus}:{int(device, 16):02x}.{function}"
            best[address] = max(value, best.get(address, 0.0))
    if not best:
        raise refusal(text, "copy between a processor and a GPU")
    return best


def _matrix(text: str, columns: Sequence[str], lines: Iterator[str]) -> dict[tuple[str, str], float]:
    """Return the cells of a matrix by row and column, without N/A; refuse a truncated or overlong row."""
    if not columns or len(columns) > _MOST_DEVICES or not all(word.isdecimal() for word in columns):
        raise refusal(text, "row with the numbers of the columns")
    cells: dict[tuple[str, str], float] = {}
    rows = 0
    for line in lines:
        words = line.split()
        if not words and not rows:
            continue
        if not words or not words[0].isdecimal():
            break
        if len(words) != len(columns) + 1:
            raise UnreadableOutputError(
                f"a row has {len(words) - 1} values and not {len(columns)}: {_short(line.strip())!r}"
            )
        rows += 1
        for column, word in zip(columns, words[1:], strict=True):
            if word != "N/A":
                cells[words[0], column] = number(word, "value of the matrix")
    if not cells:
        raise refusal(text, "row of the matrix")
    return cells


@complete
def perftest_write(text: str) -> dict[str, float]:
    """Return the average Gb/s of `ib_write_bw --report_gbits`: bytes, iterations, peak, average, messages."""
    if "BW average[Gb/sec]" not in text:
        raise refusal(text, "table of ib_write_bw in Gb/sec")
    row = r"^[ \t]*\d+[ \t]+\d+[ \t]+\S+[ \t]+(\S+)[ \t]+\S+[ \t]*$"
    return {"": number(_only(row, text, "row of ib_write_bw's table")[1], "rate of ib_write_bw")}


@complete
def nccl_all_reduce(text: str) -> dict[str, float]:
    """Return the average bus bandwidth in GB/s that all_reduce_perf ends with; wrong sums are refused."""
    sums = re.search(r"^# Out of bounds values : (\S+) (\S+)", text, re.MULTILINE)
    if sums is not None and sums[2] != "OK":
        raise UnreadableOutputError(f"all_reduce_perf has {_short(sums[1])} wrong sums")
    line, expected = r"^# Avg bus bandwidth\s*:\s*(\S+)\s*$", "line '# Avg bus bandwidth' of all_reduce_perf"
    return {"": number(_only(line, text, expected)[1], "bandwidth of all_reduce_perf")}
