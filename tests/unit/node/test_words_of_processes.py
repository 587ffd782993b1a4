"""No shell file of ours runs a word that a process says of itself: anybody may name a process `containerd`.

The rule. What is read from a file `comm`, `cmdline` or `environ` of a process is tainted, and so is each
variable with something tainted in its value, in its list (`for`), or from `set --`. A variable that a
function sets itself is its own there. Nothing tainted is the name of a command, is given to `eval`, `.` or a
shell's `-c`, or stands before the program's name in what runs its arguments: `timeout`, `exec`, `xargs` and
others, and functions of ours that do so. /proc/cmdline is the kernel's.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.fixtures.shell_commands import Command, commands
from tests.fixtures.tables import cases

FILES = sorted(
    file
    for folder in ("src/numaforge", "roles")
    for file in (REPOSITORY / folder).rglob("*.sh")
    if "src/numaforge/roles/" not in str(file)
)
OF_A_PROCESS = re.compile(r"(?<!proc)/(?:comm|cmdline|environ)\b(?!/)")
RUNS_ITS_ARGUMENTS: frozenset[str] = frozenset(
    [
        "bash",
        "busybox",
        "chroot",
        "command",
        "dash",
        "env",
        "eval",
        "exec",
        "ionice",
        "nice",
        "nohup",
        "nsenter",
        "runuser",
        "setpriv",
        "setsid",
        "sh",
        "stdbuf",
        "su",
        "sudo",
        "systemd-run",
        "taskset",
        "timeout",
        "trap",
        "unshare",
        "xargs",
        ".",
    ]
)
TEXT_IS_CODE = frozenset(("eval", ".", "trap"))
SHELLS = frozenset(("sh", "dash", "bash", "busybox"))
POSITIONS = frozenset("123456789@*")
ARGUMENTS = r'"?\$[@1]"?'


def names(word: str) -> set[str]:
    """Return the variables that a word expands."""
    return set(re.findall(r"\$\{?#?([A-Za-z_]\w*|[1-9@*])", word))


class Found:
    """The commands of a file, and what is tainted in it: pairs of a function and a variable or a position."""

    def __init__(self, text: str) -> None:
        self.commands = list(commands(text))
        self.set_in = {(command.function, name) for command in self.commands for name in sets(command)}
        self.paths = {
            name
            for command in self.commands
            if command.run[:1] == ["for"] and OF_A_PROCESS.search(" ".join(command.run[3:]))
            for name in sets(command)
        }
        self.tainted: set[tuple[str, str]] = set()
        while not self.tainted >= (more := self._more()):
            self.tainted |= more
        self.runners = self._runners()

    def is_tainted(self, word: str, function: str) -> bool:
        """Whether something tainted is in a word; a variable that a function sets is its own there."""
        if OF_A_PROCESS.search(word) and "$(" in word:
            return True
        for name in names(word):
            own = name in POSITIONS or (function, name) in self.set_in
            if any(name == other and (where == function or not own) for where, other in self.tainted):
                return True
        return False

    def _more(self) -> set[tuple[str, str]]:
        more = set()
        for command in self.commands:
            run, where = command.run, command.function
            for name, value in command.assigned:
                if self.is_tainted(value, where):
                    more.add((where, name))
            if (run[:1] == ["read"] and any(self._is_source(path, where) for path in command.inputs)) or (
                run[:1] == ["for"] and any(self.is_tainted(word, where) for word in run[3:])
            ):
                more |= {(where, name) for name in sets(command)}
            if run[:2] == ["set", "--"] and any(self.is_tainted(word, where) for word in run[2:]):
                more |= {(where, position) for position in POSITIONS}
        return more

    def _is_source(self, path: str, function: str) -> bool:
        of_a_process = OF_A_PROCESS.search(path) or names(path) & self.paths
        return bool(of_a_process) or self.is_tainted(path, function)

    def _runners(self) -> frozenset[str]:
        """Return what runs its arguments, the functions of the file among them."""
        known = RUNS_ITS_ARGUMENTS
        while True:
            more = {
                command.function
                for command in self.commands
                if command.function and (run := command.run)
                if re.fullmatch(ARGUMENTS, run[0])
                or (run[0] in known and any(re.fullmatch(ARGUMENTS, word) for word in to_the_program(run)))
            }
            if more <= known:
                return known
            known |= more

    def run_of_a_process(self) -> list[str]:
        """Return the commands that run what a process says of itself."""
        return [
            f"{command.line}: {' '.join(command.run)}"
            for command in self.commands
            if command.run and self._runs(command.run, command.function)
        ]

    def _runs(self, run: list[str], function: str) -> bool:
        if self.is_tainted(run[0], function):
            return True
        if run[0] in TEXT_IS_CODE or (run[0] in SHELLS and "-c" in run):
            return any(self.is_tainted(word, function) for word in run)
        if run[0] not in self.runners or run[:2] == ["command", "-v"]:
            return False
        return any(self.is_tainted(word, function) for word in to_the_program(run))


def to_the_program(run: list[str]) -> Iterator[str]:
    """Yield what follows a command up to the program that it runs: a plain word, or one before options."""
    for word, following in pairwise([*run[1:], ""]):
        yield word
        if re.fullmatch(r"[A-Za-z./][\w./-]*", word) or (word[:1] != "-" and following[:1] == "-"):
            return


def sets(command: Command) -> set[str]:
    """Return the variables that a command sets."""
    run = command.run
    read = {word for word in run[1:] if re.fullmatch(r"[A-Za-z_]\w*", word)} if run[:1] == ["read"] else set()
    return {name for name, _ in command.assigned} | read | ({run[1]} if run[:1] == ["for"] else set())


def runs_a_word_of_a_process(text: str) -> list[str]:
    return Found(text).run_of_a_process()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_no_script_runs_a_word_of_a_process(file: Path) -> None:
    assert runs_a_word_of_a_process(file.read_text()) == []


@cases(
    "text",
    {
        "as the name of a command": 'read -r name < "/proc/$pid/comm"\n"$name" --version',
        "as the command of a program that runs it": (
            "words=$({ tr '\\0' ' ' < \"$folder/cmdline\"; } 2> /dev/null)\nset -- $words\n"
            'case ${1-} in /*) program=$1 ;; esac\nanswer=$(timeout 5 "$program" --version)'
        ),
        "as the command of a function that runs it": (
            'run() { shift; exec "$@"; }\nask() { (run "$@"); }\nfor comm in proc/[0-9]*/comm; do\n'
            'read -r name < "$comm"\nask 60 "$name"\ndone'
        ),
        "as a word of a list": (
            'words=$(cat "proc/$pid/environ")\nfor word in $words; do\n'
            "case $word in /*) binary=$word ;; esac\ndone\n"
            'if [ -x "$binary" ] && "$binary" --version; then :; fi'
        ),
        "as code": 'read -r line < "$1/cmdline"\neval "set -- $line"',
        "as code of a shell": 'read -r line < /proc/7/cmdline\nsh -c "echo $line"',
        "as the command of a function whose limits are variables": (
            'in_bounds() { timeout -k "$AFTER" "$1" "$@"; }\nread -r name < "$1/comm"\nin_bounds 5 "$name"'
        ),
    },
)
def test_rule_finds_a_word_of_a_process_that_is_run(text: str) -> None:
    assert runs_a_word_of_a_process(text) != []


@cases(
    "text",
    {
        "shown": 'read -r name < "/proc/$pid/comm"\nprintf "%s\\n" "$name"',
        "compared": 'read -r name < "$1/comm"\nif [ "$name" = kubelet ]; then kubelet --version; fi',
        "the kernel's": 'read -r arguments < /proc/cmdline\nfor word in $arguments; do "$word"; done',
        "an argument of grep": 'words=$(cat "$1/cmdline")\ntimeout 5 grep -c "$words" file',
        "an argument of a program of ours": 'words=$(cat "$1/cmdline")\nexec "$program" --config "$words"',
        "a pattern": 'read -r name < "$1/comm"\ncase $name in "$other") true ;; esac',
    },
)
def test_rule_allows_reading_a_word_of_a_process(text: str) -> None:
    assert runs_a_word_of_a_process(text) == []
