"""The hugepage pools of a host, and the files that fill them at boot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from numaforge.bundle import FileContent, FileState, parse_states, read_script
from numaforge.hosts import parse_values, values_script


@dataclass(frozen=True)
class PoolsState:
    """The files and the pools that exist among those asked for; pages by `nr_hugepages` path."""

    files: Mapping[str, FileState]
    pools: Mapping[str, int]


@dataclass(frozen=True)
class PoolsQuestion:
    """Which pools and which files to read; texts among the `known` ones are not sent."""

    pools: tuple[str, ...]
    paths: tuple[str, ...]
    known: tuple[str, ...]

    @property
    def script(self) -> str:
        """The script whose output `pools_state` reads."""
        return values_script(self.pools) + read_script(self.paths, self.known)


def pools_question(
    files: Sequence[FileContent], absent: Sequence[str], pools: Iterable[str]
) -> PoolsQuestion:
    """Return the question about pools and files that are to be as described."""
    paths = (*(file.path for file in files), *absent)
    return PoolsQuestion(tuple(pools), paths, tuple(file.text for file in files))


def pools_state(question: PoolsQuestion, output: Sequence[str]) -> PoolsState:
    """Read the answer.

    Raises HostError for one that is cut off.
    """
    end = output.index(".") + 1 if "." in output else 0
    values = parse_values(question.pools, output[:end])
    pools = {path: int(pages) for path, pages in values.items()}
    return PoolsState(parse_states(output[end:], question.known), pools)
