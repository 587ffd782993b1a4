"""The kernel values that have their own profile keys: one row each.

The row determines the profile's key and its documentation, what a snapshot captures, where the plan keeps
the value, the file that sets it at every boot, the part of a maintenance that sets and restores it, what
verification checks, and how TuneD's files are converted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

Word = bool | int | str
"""A value in a profile."""

_CPU = "/sys/devices/system/cpu"
_SYSCTLS = "/proc/sys/"
_MOST_DIGITS = 20


@dataclass(frozen=True)
class AtLeast:
    """A number in a profile, with its minimum."""

    least: int


class Feature(NamedTuple):
    """What a kernel has or lacks as a whole, with the notice for one that lacks it.

    `field` is the field of TuningPlan that holds its values, by path below `folder`; None: they are in
    `values`, by full path.
    """

    folder: str
    id: str
    lacking: str
    field: str | None = None


@dataclass(frozen=True)
class Knob:
    """One value: `key` is its place below `tuning`, `word` what a profile accepts there.

    `files` are the kernel files that may hold it, of which the first that exists counts, each with the text
    for words that are not written as they are. A kernel without any counts as having the word `absent_is`.
    """

    key: str
    word: type[bool] | tuple[str, ...] | AtLeast
    files: Mapping[str, Mapping[Word, str]]
    description: str
    example: Word
    feature: Feature | None = None
    absent_is: Word | None = None

    @property
    def sysctl(self) -> str | None:
        """The dotted name where the value is a sysctl, else None."""
        if not self.path.startswith(_SYSCTLS):
            return None
        return self.path.removeprefix(_SYSCTLS).replace("/", ".")

    @property
    def path(self) -> str:
        """The file that holds it; the preferred one where kernels differ."""
        return next(iter(self.files))

    def text(self, path: str, word: Word) -> str:
        """Return the text in the file for a word."""
        return self.files[path].get(word) or str(int(word) if isinstance(word, bool) else word)

    def word_for(self, path: str, text: str) -> Word | None:
        """Return the profile's word for a file's text; None where there is none."""
        if self.word is bool:
            return next((word for word in (False, True) if self.text(path, word) == text), None)
        if isinstance(self.word, AtLeast):
            is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
            return int(text) if is_number and int(text) >= self.word.least else None
        return text if isinstance(self.word, tuple) and text in self.word else None


def at(path: str) -> dict[str, dict[Word, str]]:
    """Return the `files` of a knob with one file, where words are written as they are, true as 1."""
    return {path: {}}


_THP = Feature(
    "/sys/kernel/mm/transparent_hugepage/",
    "no-transparent-hugepages",
    "the kernel has no transparent huge pages",
    "transparent_hugepages",
)
_TURBO = Feature(f"{_CPU}/", "no-turbo", "the frequency driver has no switch for turbo", "turbo")
_KSM = Feature("/sys/kernel/mm/ksm/", "no-ksm", "this kernel merges no pages (KSM)", "ksm")
_ASPM = Feature(
    "/sys/module/pcie_aspm/parameters/", "no-pcie-aspm", "this kernel does not manage the power of PCIe links"
)


def _thp(name: str, word: type[bool] | tuple[str, ...] | AtLeast, description: str, example: Word) -> Knob:
    key = f"transparent_hugepages.{name.replace('/', '.')}"
    return Knob(key, word, at(f"{_THP.folder}{name}"), description, example, _THP)


_TURBO_FILES: Mapping[str, Mapping[Word, str]] = {
    f"{_CPU}/intel_pstate/no_turbo": {True: "0", False: "1"},
    f"{_CPU}/cpufreq/boost": {},
}

KNOBS = (
    Knob("turbo", bool, _TURBO_FILES, "Whether every CPU may run above its nominal frequency.", True, _TURBO),
    Knob(
        "ksm",
        bool,
        at("/sys/kernel/mm/ksm/run"),
        "Whether the kernel merges identical pages. false stops it; pages already merged stay merged.",
        False,
        _KSM,
        absent_is=False,
    ),
    Knob(
        "numa_balancing",
        bool,
        at("/proc/sys/kernel/numa_balancing"),
        "kernel.numa_balancing: whether the kernel moves pages to the threads that use them.",
        False,
    ),
    Knob(
        "nmi_watchdog",
        bool,
        at("/proc/sys/kernel/nmi_watchdog"),
        "kernel.nmi_watchdog: whether the kernel interrupts each CPU to detect hangs. false frees a "
        "performance counter.",
        False,
    ),
    Knob(
        "pcie_aspm",
        ("default", "performance", "powersave", "powersupersave"),
        at(f"{_ASPM.folder}policy"),
        "How idle PCIe links save power; performance keeps them awake. If the firmware controls this, the "
        "kernel refuses the value, and the change is undone.",
        "performance",
        _ASPM,
    ),
    _thp(
        "enabled", ("always", "madvise", "never"), "When the kernel uses transparent huge pages.", "madvise"
    ),
    _thp(
        "defrag",
        ("always", "defer", "defer+madvise", "madvise", "never"),
        "When an allocation waits while the kernel makes room for huge pages.",
        "defer+madvise",
    ),
    _thp(
        "shmem_enabled",
        ("always", "within_size", "advise", "never", "deny", "force"),
        "When shared memory and tmpfs get huge pages.",
        "advise",
    ),
    _thp("khugepaged/defrag", bool, "Whether khugepaged may make room for huge pages.", False),
    _thp("khugepaged/pages_to_scan", AtLeast(1), "Pages that khugepaged scans in one pass.", 4096),
    _thp(
        "khugepaged/scan_sleep_millisecs",
        AtLeast(0),
        "How long khugepaged sleeps between passes, in milliseconds.",
        60000,
    ),
)

KNOB_AT: Mapping[str, Knob] = {path: knob for knob in KNOBS for path in knob.files}
"""The knob of each file, by path."""
