"""What a host lacks for a maintenance: how it is asked under the shells of hosts, and how that is judged."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from numaforge.findings import Severity
from numaforge.lib.errors import HostError
from numaforge.lib.file_content import WRITTEN_BELOW
from numaforge.lib.framing import Answer
from numaforge.lib.programs import CAPTURED_WITH, CHANGED_WITH, SYSTEMD
from numaforge.machine.snapshot.capture import parse_output
from numaforge.machine.snapshot.capture import script as capture_script
from numaforge.preflight import Check
from numaforge.preflight.host import FREE_KIB, answer_lines, checks, refuse_unfit, script

PACKAGE = Path(__file__).parents[3] / "src/numaforge"
NOW = 1_700_000_000.0
GOOD = (
    "systemd runs",
    "space /var/lib/numaforge 1048576",
    "space /etc 1048576",
    f"clock {NOW:.0f}",
)
ERROR, WARNING = Severity.ERROR, Severity.WARNING


def ask(shell: list[str], text: str, path: str | None = None) -> Answer:
    done = subprocess.run(
        [*shell, "-s"], input=text, capture_output=True, text=True, check=True, env=path and {"PATH": path}
    )
    return Answer.of(done.stdout)


def judged(*answer: str, asked_at: float = NOW, answered_at: float = NOW) -> dict[str, Check]:
    return {check.name: check for check in checks(answer, asked_at, answered_at)}


def test_check_script_runs_to_the_end_on_this_machine(shell):
    answer = answer_lines(ask(shell, script()))
    assert {line.split()[0] for line in answer} >= {"systemd", "space", "clock"}
    assert [line.split()[1] for line in answer if line.startswith("space ")] == [*FREE_KIB, *WRITTEN_BELOW]


def test_check_script_leaves_a_preceding_capture_whole(shell):
    answer = ask(shell, capture_script() + script())
    assert parse_output(answer).files["/sys/devices/system/cpu/online"]
    assert answer_lines(answer)[0].startswith(("missing", "systemd"))


def test_missing_programs_are_named(shell, tmp_path):
    if "busybox" in shell[0]:
        pytest.skip("busybox has its programs within")
    answer = answer_lines(ask(shell, script(), str(tmp_path)))
    missing = {line.split()[1] for line in answer if line.startswith("missing ")}
    assert missing >= {"flock", "base64", "od", "find"}


def test_host_with_everything_passes():
    found = judged(*GOOD)
    assert {check.severity for check in found.values()} == {None}
    refuse_unfit(GOOD)


@pytest.mark.parametrize(
    ("line", "name", "severity", "found"),
    [
        ("missing flock", "programs", ERROR, "there is no flock"),
        ("systemd -", "systemd", WARNING, "does not run"),
        ("space /etc 4095", "/etc", ERROR, "3Mi free"),
        ("space /etc 4096", "/etc", None, "writable, 4Mi free"),
        ("read-only /etc", "/etc", ERROR, "is on a read-only file system"),
        (
            "read-only /etc/sysctl.d",
            "/etc/sysctl.d",
            ERROR,
            "is on a read-only file system",
        ),
        (f"clock {NOW - 31:.0f}", "clock", None, "as here"),
        (f"clock {NOW - 32:.0f}", "clock", WARNING, "31 s behind the one here"),
        (f"clock {NOW + 31:.0f}", "clock", WARNING, "31 s ahead of the one here"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else None,
)
def test_failed_check_is_reported_with_its_severity_and_evidence(line, name, severity, found):
    check = judged(*GOOD, line)[name]
    assert (check.severity, check.evidence) == (severity, found)
    assert (check.remedy != "") == (severity is not None)


def test_clock_between_question_and_answer_passes():
    assert judged(f"clock {NOW:.0f}", asked_at=NOW - 300, answered_at=NOW + 300)["clock"].severity is None


def test_missing_tools_are_named_with_their_packages():
    check = judged("missing flock", "missing od")["programs"]
    assert check.remedy == "install coreutils, util-linux"


def test_all_missing_requirements_are_one_refusal():
    with pytest.raises(HostError) as refused:
        refuse_unfit(("missing flock", "space /etc 1"))
    assert "flock" in str(refused.value)
    assert "/etc: 0 free" in str(refused.value)


def test_facts_missing_from_a_hosts_answer_raise_no_alarm():
    refuse_unfit(GOOD[1:2])


OF_A_CONCERN = {
    *(
        "curl",
        "wget",
        "iconv",
        "ip",
        "rdma",
        "setpci",
        "mlnx_qos",
        "dcbtool",
        "lldptool",
    ),  # guarded where used
    *("gzip", "python3", "nvidia-smi", "kubelet", "crictl", "dpkg-query", "rpm", "timedatectl"),
    *("update-grub", "grubby", "bootctl", "kernelstub", "grub2-mkconfig", "reboot", "modprobe", "sysctl"),
    *("swapon", "swapoff", "journalctl", "apt-mark", "dnf", "udevadm", "lsmod", "rmmod", "sudo", "getconf"),
    "mktemp",  # a rehearsal asks for what it needs
    *("sh", "bash"),  # bash: a word of a pattern
}
KNOWN = {name for programs in CHANGED_WITH.values() for name in programs} | {*SYSTEMD} | OF_A_CONCERN


def used_programs() -> set[str]:
    """Return the words that begin a command in the scripts of hosts and are programs of this machine."""
    scripts = [PACKAGE / "machine/snapshot/capture.sh", *(PACKAGE / "node").rglob("*.sh")]
    words = set()
    for file in scripts:
        text = re.sub(r"(?m)^\s*#.*$|'[^']*'", "", file.read_text())
        words |= set(re.findall(r"(?:^|[|;&(`]|\bif|\bthen|\bdo|\belse|!)\s*([a-z][a-z0-9_-]+) ", text, re.M))
    return {word for word in words if (found := shutil.which(word)) and "/bin" in found}


def test_every_program_used_by_the_scripts_is_checked():
    ask_dash = "for name; do case $(type $name) in *builtin*|*keyword*) echo $name;; esac; done"
    found = subprocess.run(
        ["dash", "-c", ask_dash, "-", *sorted(used_programs())], capture_output=True, text=True, check=True
    )
    builtin = found.stdout.split()
    assert used_programs() - {*builtin} - KNOWN == set()
    assert len(used_programs() & KNOWN) > 20


def test_every_capture_program_has_a_package() -> None:
    assert {*CAPTURED_WITH} <= {program for programs in CHANGED_WITH.values() for program in programs}
