"""Measure what a host's shell takes to read its units and the rights of its paths, and four times as many.

A shell may take the square of a text's length to cut it, and so the cube for all entries of a table. Linear
is a ratio of 4; it fails beyond 8.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from numaforge.lib import shell

FEW, TIMES, LIMIT = 25, 4, 8
UNIT = (
    "MainPID={0}\nControlGroup=/system.slice/{1}\nExecStart={{ path=/usr/sbin/{1} ; "
    "argv[]=/usr/sbin/{1} --config /etc/{1}/config.d ; ignore_errors=no ; start_time=[n/a] ; "
    "stop_time=[n/a] ; pid={0} ; code=(null) ; status=0/0 }}"
)


def shells() -> dict[str, list[str]]:
    """Return the command line of each shell that is installed."""
    candidates = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}
    return {name: command for name, command in candidates.items() if shutil.which(command[0])}


def units(count: int, folder: Path) -> str:
    """Return a script that prints the main process of each of so many units, each asked for once."""
    names = [f"a-service-{number}.service" for number in range(count)]
    answer = folder / "units"
    answer.write_text("\n\n".join(UNIT.format(number, name) for number, name in enumerate(names)))
    return (
        shell.library("node/paths", "lib/units")
        + f"systemctl() {{ cat {answer}; }}\n"
        + shell.call("ask_units", ["MainPID,ControlGroup,ExecStart", *names])
        + f'for unit in {" ".join(names)}; do unit_says "$unit" MainPID; echo "$unit_value"; done\n'
    )


def rights(count: int, folder: Path) -> str:
    """Return a script that prints each of so many files of root's that no other user can redirect."""
    lengths = [number % 60 for number in range(count)]
    files = [folder / f"{number}{'-' * length}.d" / "90.conf" for number, length in enumerate(lengths)]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.touch()
    listed = " ".join(map(str, files))
    return (
        shell.library("node/paths")
        + f"read_rights {listed}\nnumber=0\nfor file in {listed}; do\n"
        + '    resolve "$file" && echo "$number"\n    number=$((number + 1))\ndone\n'
    )


def seconds(command: list[str], script: str, count: int) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
    taken = time.perf_counter() - started
    assert done.stdout.split() == [str(number) for number in range(count)], done.stdout + done.stderr
    return taken


def main() -> int | str:
    over = []
    for name, command in shells().items():
        for table in (units, rights):
            with tempfile.TemporaryDirectory() as folder:
                few, many = (
                    min(seconds(command, table(count, Path(folder)), count) for _ in range(3))
                    for count in (FEW, TIMES * FEW)
                )
            ratio = many / few
            print(
                f"{name}, {FEW} {table.__name__}: {few * 1000:.0f} ms; {TIMES * FEW}: {ratio:.1f} times that"
            )
            over += [f"{name}, {table.__name__}"] if ratio > LIMIT else []
    return f"not linear: {'; '.join(over)}" if over else 0


if __name__ == "__main__":
    sys.exit(main())
