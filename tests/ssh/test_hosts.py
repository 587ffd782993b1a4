"""A script on a host over a real sshd: what it prints, how it fails, and a connection that is cut."""

from pathlib import Path

import pytest

from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, pyinfra

# The deploy runs each script with `reached`, and says how that ended.
_DEPLOY = """
import os
import signal
from pathlib import Path

from pyinfra import host, logger

from numaforge.lib.errors import HostError
from numaforge.lib.framing import asking
from numaforge.run.hosts.scripts import reached

LISTENER = {sshd}

def reach(script, **limit):
    try:
        logger.info("answer %r", list(reached(host, asking(script), **limit).lines))
    except HostError as error:
        logger.info("%s %r", type(error).__name__, error.message)

def signal_sessions(name):
    for session in Path(f"/proc/{{LISTENER}}/task/{{LISTENER}}/children").read_text().split():
        os.kill(int(session), signal.Signals[name])

{scene}
"""
# Ends the sshd that the script runs under, as a network that drops the connection does.
_CUT = """
echo one
process=$$
while [ "$(cat /proc/$process/comm)" != sshd ]; do
    read -r _ _ _ process _ < /proc/$process/stat
done
kill -{signal} "$process"
sleep 1
echo two
"""


def play(sandbox: Sandbox, folder: Path, scene: str) -> list[str]:
    deploy = folder / "deploy.py"
    deploy.write_text(_DEPLOY.format(sshd=sandbox.pid, scene=scene))
    done = pyinfra(folder, {"node": sandbox.data()}, "-y", str(deploy))
    return [line.strip() for line in done.stdout.splitlines() if line.strip().startswith(("answer", "Host"))]


def reach(sandbox: Sandbox, folder: Path, *scripts: str) -> list[str]:
    return play(sandbox, folder, "\n".join(f"reach({script!r})" for script in scripts))


@pytest.fixture
def sandbox(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


ENDINGS = {
    "lines": ("echo one; echo two", "answer ['one', 'two']"),
    "nothing": (":", "answer []"),
    "an-empty-line": ("echo one; echo; echo two", "answer ['one', '', 'two']"),
    "no-end-of-line": ("printf one", "answer ['one']"),
    "it-leaves-early": ("echo one; exit 0; echo two", "answer ['one']"),
    "a-here-document": ("cat <<'END'\n$one\nEND", "answer ['$one']"),
    "a-complaint": ("echo one; echo two >&2; exit 3", "HostError 'two'"),
    "a-failure-without-a-word": ("exit 3", "HostError 'the script failed with 3'"),
}


def test_script_returns_its_output_lines_or_its_error(sandbox, tmp_path):
    said = reach(sandbox, tmp_path, *(script for script, _ in ENDINGS.values()))
    assert dict(zip(ENDINGS, said, strict=True)) == {name: answer for name, (_, answer) in ENDINGS.items()}


# paramiko notices each of them in another way.
CUTS = {
    "opening a channel": """
reach(":")
signal_sessions("SIGKILL")
reach(":")
""",
    "starting the shell": """
reach(": > /run/KILL-at-once")
reach(":")
""",
    "writing the script": f"""
reach(": > /run/KILL-in-the-middle")
reach("# {"x" * 8_000_000}")
""",
    "reading the answer": f"""
reach({_CUT.format(signal="KILL")!r})
""",
    "reading the answer of one that says goodbye": f"""
reach({_CUT.format(signal="TERM")!r})
""",
}
# What root's login shell does when a script has asked for it.
_SIGNALS = """
if [ -e /run/{signal}-at-once ]; then
    rm /run/{signal}-at-once
    kill -{signal} "$PPID"
fi
if [ -e /run/{signal}-in-the-middle ]; then
    rm /run/{signal}-in-the-middle
    head -c 1000000 > /dev/null
    kill -{signal} "$PPID"
fi
"""


@pytest.mark.parametrize("doing", CUTS)
def test_cut_connection_is_unreachable_and_reconnects(sandbox, tmp_path, doing):
    sandbox.log_in_with(_SIGNALS.format(signal="KILL"))
    *_, cut, after = play(sandbox, tmp_path, CUTS[doing] + 'reach("echo back")')
    assert cut == "HostUnreachableError 'the host does not answer: the connection was cut'"
    assert after == "answer ['back']"


def test_ssh_connection_sets_tcp_user_timeout(sandbox, tmp_path):
    scene = """
import socket
reach(":")
connection = host.connector.client.get_transport().sock
named = (getattr(socket, name) for name in ("TCP_USER_TIMEOUT", "TCP_NODELAY"))
logger.info("answer %s", [connection.getsockopt(socket.IPPROTO_TCP, option) for option in named])
"""
    assert play(sandbox, tmp_path, scene)[-1] == "answer [45000, 1]"


# Each of them leaves an sshd stopped in the middle, which then never answers.
FROZEN = {
    "connecting": """
signal_sessions("SIGKILL")
reach(":")
os.kill(LISTENER, signal.SIGSTOP)
reach(":", seconds=2)
os.kill(LISTENER, signal.SIGCONT)
""",
    "opening a channel": """
signal_sessions("SIGSTOP")
reach(":", seconds=2)
""",
    "writing the script": f"""
reach(": > /run/STOP-in-the-middle")
reach("# {"x" * 8_000_000}", seconds=2)
""",
    "reading the answer": f"""
reach({_CUT.format(signal="STOP")!r}, seconds=2)
""",
}


@pytest.mark.parametrize("doing", FROZEN)
def test_time_limit_ends_every_kind_of_wait_for_a_host(sandbox, tmp_path, doing):
    sandbox.log_in_with(_SIGNALS.format(signal="STOP"))
    *_, limited, after = play(sandbox, tmp_path, FROZEN[doing] + 'reach("echo back")')
    assert limited == "HostUnreachableError 'the host does not answer: no answer within 2 s'"
    assert after == "answer ['back']"


def test_host_silent_during_detection_is_unreachable_after_limit(sandbox, tmp_path):
    scene = """
from numaforge.run.hosts.facts import detect

reach(":")
host.data.override_datas["numaforge_answer_seconds"] = 2
signal_sessions("SIGSTOP")
try:
    detect(host)
except HostError as error:
    logger.info("%s %r", type(error).__name__, error.message)
reach("echo back")
"""
    _, limited, after = play(sandbox, tmp_path, scene)
    assert limited == "HostUnreachableError 'the host does not answer: no answer within 2 s'"
    assert after == "answer ['back']"


def test_unresponsive_host_does_not_block_other_work(sandbox, tmp_path):
    scene = f"""
from numaforge.rollout.steps import in_thread

turns = []

def count():
    while True:
        turns.append("turn")
        yield 0.1

with in_thread(count()):
    reach({_CUT.format(signal="STOP")!r}, seconds=2)
logger.info("answer %r", len(turns) > 10)
"""
    assert play(sandbox, tmp_path, scene)[-1] == "answer True"


def test_incomplete_script_executes_nothing(sandbox, tmp_path):
    (said,) = reach(sandbox, tmp_path, "touch /run/half\nif true; then")
    assert said.startswith("HostUnreachableError")
    assert not sandbox.path("/run/half").exists()
