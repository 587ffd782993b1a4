"""How OpenSSH would reach a host: the answer of `ssh -G`, for many hosts at once."""

import atexit
import getpass
import os
import pwd
import re
import select
import shlex
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gevent import monkey  # type: ignore[import-untyped]
from paramiko import SSHConfig
from paramiko.ssh_exception import ConfigParseError

from numaforge.lib.errors import HostError

SYSTEM_CONFIG = "/etc/ssh/ssh_config"
CHECKING = "ssh_strict_host_key_checking"
"""The host datum for ssh_config's StrictHostKeyChecking."""
_HOSTS_OF_SHELL = 25
_ANSWER_SECONDS = 60
_ANSWER = re.compile(r"(.*?)^= (\d+)\n", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(r"%(.)|\$\{(\w+)\}")
_HOP = re.compile(r"(?:(?P<user>.+)@)?(?:\[(?P<bracketed>.+)\]|(?P<plain>[^:\[\]]+))(?::(?P<port>\d+))?")
_NOTHING_SAID = ("UNKNOWN port 65535", ": terminating, ")
_PATHS = ("userknownhostsfile", "globalknownhostsfile")


class Question(NamedTuple):
    """A host's name for `ssh -G`, its options, ("-p", "2222"), and the file for -F, "" for none."""

    name: str
    options: tuple[str, ...] = ()
    config: str = ""

    @property
    def command(self) -> list[str]:
        return ["ssh", *self.with_config, "-G", *self.options, "--", self.name]

    @property
    def with_config(self) -> list[str]:
        """The option that names the configuration file."""
        return ["-F", self.config] if self.config else []


@dataclass(frozen=True)
class Destination:
    """How OpenSSH would reach a host: `settings` are the values by keyword in lower case, in its order."""

    question: Question
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.question.name

    @property
    def host(self) -> str:
        """The name or the address to dial."""
        return self.get("hostname") or self.name

    @property
    def port(self) -> int:
        return int(self.get("port") or 22)

    @property
    def user(self) -> str:
        return self.get("user") or _user()

    @property
    def jump(self) -> Question | None:
        """The last jump host, reached through those before it; raises HostError for unreadable settings."""
        earlier_hops, _, last = self.get("proxyjump").rpartition(",")
        if not last:
            return None
        hop = _HOP.fullmatch(last)
        if hop is None:
            raise HostError(f"ssh_config's ProxyJump cannot be read: {last}")
        pairs = (("-l", hop["user"]), ("-p", hop["port"]), ("-J", earlier_hops))
        options = tuple(word for pair in pairs if pair[1] for word in pair)
        return Question(hop["bracketed"] or hop["plain"], options, self.question.config)

    def get(self, keyword: str) -> str:
        """Return a keyword's value, "" where it has none."""
        value = next(iter(self.settings.get(keyword, ())), "")
        return "" if value == "none" else value

    def is_on(self, keyword: str) -> bool:
        """Return whether a keyword's value is yes."""
        return self.get(keyword) in ("yes", "true")

    def seconds(self, keyword: str) -> int:
        return int(self.get(keyword) or 0)

    def files(self, keyword: str) -> list[str]:
        """Return the paths of a keyword such as identityfile, with the tokens of ssh_config(5) replaced."""
        paths = [path for path in self.settings.get(keyword, ()) if path != "none"]
        if keyword in _PATHS:
            paths = [path for line in paths for path in _split_paths(line)]
        return [_expanded(self.filled(path)) for path in paths]

    def filled(self, text: str) -> str:
        """Return a text with its tokens (%h) and environment variables (${HOME}) replaced."""
        if "%" not in text and "${" not in text:
            return text
        hostname = socket.gethostname()
        tokens = {
            "%": "%",
            "h": self.host,
            "n": self.name,
            "p": str(self.port),
            "r": self.user,
            "k": self.get("hostkeyalias") or self.host,
            "u": _user(),
            "d": str(Path("~").expanduser()),
            "i": str(os.getuid()),
            "L": hostname.partition(".")[0],
            "l": hostname,
        }
        return _TOKEN.sub(
            lambda match: os.environ.get(match[2], "") if match[2] else tokens.get(match[1], match[0]), text
        )


@cache
def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no entry in passwd
        return str(os.getuid())


def _split_paths(line: str) -> list[str]:
    """Split the paths of a line of `ssh -G`, which does not quote those with spaces."""
    words, paths = line.split(" "), []
    while words:
        starts = ((end, " ".join(words[:end])) for end in range(len(words), 1, -1))
        ends = (end for end, path in starts if os.path.exists(_expanded(path)))  # noqa: PTH110 (for every host)
        end = next(ends, 1)
        paths.append(" ".join(words[:end]))
        words = words[end:]
    return [path for path in paths if path != "none"]


def _expanded(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


_DEFAULTS = Question("localhost", config="/dev/null")
_answers: dict[Question, Destination | HostError] = {}


def question_of(name: str, data: Mapping[str, Any]) -> Question:
    """Return what to ask OpenSSH of a host; `data` is host data of pyinfra (ssh_port, ...)."""
    pairs = (("-p", data.get("ssh_port")), ("-l", data.get("ssh_user")))
    options = tuple(str(word) for pair in pairs if pair[1] for word in pair)
    first = {
        "UserKnownHostsFile": _absolute(data.get("ssh_known_hosts_file")),
        "StrictHostKeyChecking": data.get(CHECKING),
        "IdentityFile": _absolute(data.get("ssh_key")),
    }
    dialled = str(data.get("ssh_hostname") or name)
    return Question(dialled, options, _config(_absolute(data.get("ssh_config_file")), **first))


def ask_openssh(hosts: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Ask OpenSSH once, in 4 ms of CPU each, how it would reach hosts, and then their jump hosts."""
    if without_openssh():
        return
    questions = {_DEFAULTS, *(question_of(name, data) for name, data in hosts)}
    while unanswered := [question for question in questions if question not in _answers]:
        shares = range(0, len(unanswered), _HOSTS_OF_SHELL)
        with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
            answers = [pool.submit(_ask, unanswered[start : start + _HOSTS_OF_SHELL]) for start in shares]
            for share in answers:
                share.result()
        questions = {jump for question in unanswered if (jump := _jump_of(_answers[question]))}


def _jump_of(answer: Destination | HostError) -> Question | None:
    with suppress(HostError):  # the host's own line says so
        return answer.jump if isinstance(answer, Destination) else None
    return None


def destination_of(name: str, data: Mapping[str, Any]) -> Destination:
    """Return how OpenSSH would reach a host; raises HostError where it cannot use its configuration."""
    question = question_of(name, data)
    if question not in _answers:
        ask_openssh([(name, data)])
    return answer_to(question)


def answer_to(question: Question) -> Destination:
    """Return OpenSSH's answer to a question that has been asked; raises as `destination_of` does."""
    if without_openssh():
        return _read_by_paramiko(question)
    answer = _answers[question]
    if isinstance(answer, HostError):
        raise answer
    return answer


def defaults() -> Destination:
    """Return what OpenSSH would do without any configuration."""
    return Destination(_DEFAULTS) if without_openssh() else answer_to(_DEFAULTS)


def _ask(questions: list[Question]) -> None:
    """Ask in one shell; after a question without answer, ask the others in another."""
    while questions:
        commands = (shlex.join(question.command) for question in questions)
        output = _output_of("".join(f'{command} 3>&-; echo "= $?"\n' for command in commands))
        answers = _ANSWER.findall(output.decode("utf-8", "replace"))
        for question, (text, code) in zip(questions, answers, strict=False):
            _answers[question] = _read(question, text, int(code))
        questions = questions[len(answers) :]
        if questions:
            _answers[questions.pop(0)] = HostError(
                f"`ssh -G` has not answered within {_ANSWER_SECONDS} s",
                remedy="see which Match exec or name lookup of ssh_config waits",
            )


def _output_of(script: str) -> bytes:
    """Return all output of a shell; it is ended where it prints nothing for _ANSWER_SECONDS.

    Its descriptor 3 shows that it has ended. gevent's subprocess would fork, which takes as long as two
    answers; its posix_spawn misses the end of a faster shell, and its waitpid then waits forever.
    """
    spawn, wait = monkey.get_original("os", ["posix_spawnp", "waitpid"])
    near_end, far_end = socket.socketpair()
    with near_end, tempfile.TemporaryFile() as output, Path(os.devnull).open("rb") as nothing:
        with far_end:
            descriptors = ((nothing, 0), (output, 1), (output, 2), (far_end, 3))
            shell = spawn(
                "sh",
                ["sh", "-c", script],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, ours.fileno(), its) for ours, its in descriptors],
                setsid=True,
                setsigdef=[signal.SIGPIPE],
            )
        ended, size = select.poll(), 0
        ended.register(near_end, select.POLLIN)
        while not ended.poll(_ANSWER_SECONDS * 1000):
            if size == (size := os.fstat(output.fileno()).st_size):
                os.killpg(shell, signal.SIGKILL)  # and a program of `Match exec`
        with suppress(ChildProcessError):  # gevent's loop has seen it end first
            wait(shell, 0)
        output.seek(0)
        return output.read()


def _read(question: Question, text: str, code: int) -> Destination | HostError:
    if code:
        lines = telling_lines(text)
        return HostError(
            f"ssh cannot use its configuration: {lines[-1] if lines else f'it ended with {code}'}",
            remedy=f"try it: {shlex.join(question.command)}",
        )
    settings: dict[str, list[str]] = {}
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        settings.setdefault(keyword, []).append(value)
    return Destination(question, settings)


def telling_lines(text: str) -> list[str]:
    """Return the output lines of an OpenSSH program, without noise."""
    lines = text.strip().splitlines()
    return [line.strip() for line in lines if not any(words in line for words in _NOTHING_SAID)]


@cache
def without_openssh() -> str:
    """Return why `ssh` cannot be asked on this machine, "" where it can."""
    if shutil.which("ssh") is None:
        return "there is no program ssh on this machine"
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return f"ssh does not run as user ID {os.getuid()}, which has no entry in passwd"
    return ""


def _read_by_paramiko(question: Question) -> Destination:
    """Return how to reach a host by paramiko, without Include; raises HostError where that is not enough."""
    file = Path(question.config or "~/.ssh/config").expanduser()
    text = file.read_text("utf-8", "replace") if file.is_file() else ""
    try:
        lookup = SSHConfig.from_text(text).lookup(question.name)
    except (ConfigParseError, ImportError, ValueError) as error:
        raise HostError(
            f"{without_openssh()}, and {file} cannot be read without: {error}", remedy="install it"
        ) from error
    if re.search(r"(?im)^\s*(include|match)\b", text) or "proxyjump" in lookup:
        raise HostError(
            f"{without_openssh()}, and {file} has an Include, a Match or a ProxyJump for this host",
            remedy="install OpenSSH's client",
        )
    options = dict(zip(question.options[::2], question.options[1::2], strict=True))
    login_options = {"port": options.get("-p"), "user": options.get("-l")}
    settings = {key: value if isinstance(value, list) else [str(value)] for key, value in lookup.items()}
    settings |= {key: [value] for key, value in login_options.items() if value}
    settings.setdefault("identityfile", [f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ed25519")])
    settings.setdefault("userknownhostsfile", ["~/.ssh/known_hosts"])
    settings.setdefault("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts"])
    return Destination(question, settings)


def _absolute(path: object) -> str:
    return str(Path(str(path)).expanduser().absolute()) if path else ""


@cache
def _config(user_config: str, **first: str | None) -> str:
    """Return the file for -F, "" where OpenSSH's own files suffice.

    OpenSSH passes -F alone to the `ssh` of each jump host: so `first`, of host data, go into a file that
    includes the usual ones, in HOME, where OpenSSH takes the folder that passwd names.
    """
    keywords = [f"    {keyword} {_quoted(value, tokens=True)}" for keyword, value in first.items() if value]
    home = str(Path("~").expanduser())
    elsewhere = not without_openssh() and home != pwd.getpwuid(os.getuid()).pw_dir
    if not keywords and (user_config or not elsewhere):
        return user_config
    files = [user_config] if user_config else [f"{home}/.ssh/config", SYSTEM_CONFIG]
    lines = ["Host *", *keywords, *(f"    Include {_quoted(file)}" for file in files)]
    if elsewhere and not user_config:
        known_hosts = (f"{home}/.ssh/known_hosts", f"{home}/.ssh/known_hosts2")
        lines.append(f"    UserKnownHostsFile {' '.join(_quoted(file, tokens=True) for file in known_hosts)}")
    with tempfile.NamedTemporaryFile("w", dir=run_folder(), delete=False, encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return file.name


@cache
def run_folder() -> str:
    """Return this process's folder for files and sockets of ssh; it is removed at the process's end."""
    folder = tempfile.mkdtemp(prefix="numaforge-")
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # and not in a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)


def _quoted(value: str, *, tokens: bool = False) -> str:
    """Return a value for ssh_config; with `tokens`, a % begins one; raises HostError."""
    if '"' in value or "\n" in value:
        raise HostError(f"{value!r} cannot be written in ssh_config", remedy="name the file otherwise")
    return '"{}"'.format(value.replace("%", "%%") if tokens else value)
