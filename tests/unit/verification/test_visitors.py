"""Who comes to some CPUs: counted by name, pods left out."""

import subprocess

import pytest

from numaforge.verification.visitors import Visitor, read_visitors, visitors_script
from tests.fixtures.answers import answered
from tests.fixtures.tables import cases

TABLE = """\
            CPU0       CPU1       CPU4
  30:  {0}  {1}  {2}  IR-PCI-MSIX-0000:17:00.0  0-edge      mlx5_comp0@pci:0000:17:00.0
  31:  5  5  5  IR-PCI-MSIX-0000:17:00.0  1-edge      mlx5_comp1@pci:0000:17:00.0
 LOC:  100  {3}  100  Local timer interrupts
 ERR:  0
"""
PROCESSES = """\
process 1\t0-7\tsystemd\t/init.scope
process 7\t0\tsshd\t/system.slice/ssh.service
process 8\t4-5\tapp\t/kubepods.slice/kubepods-pod1.slice/cri-1.scope
process 9\t4-5\tapp\t/kubepods/pod2/cri-2
process 10\t4\tnaughty\t/system.slice/naughty.service
"""


def answer(*counts: int) -> list[str]:
    tables = [TABLE.format(0, 0, 0, 0), TABLE.format(*counts)]
    before, after = (
        "".join(f"{kind} {line}\n" for line in table.splitlines())
        for kind, table in zip(("before", "after"), tables, strict=True)
    )
    return answered(*f"{before}{PROCESSES}{after}".splitlines())


@cases(
    "cpus, came",
    {
        "a-column-by-its-head": ({0}, {"mlx5_comp0@pci:0000:17:00.0": 9}),
        "cpus-that-are-not-numbered-through": ({4}, {"mlx5_comp0@pci:0000:17:00.0": 2}),
        "the-kernels-own-by-their-key": ({1}, {"LOC": 3}),
        "an-offline-cpu-has-no-column": ({5}, {}),
    },
)
def test_interrupts_are_counted_on_requested_cpus(cpus, came):
    assert read_visitors(answer(9, 0, 2, 3), frozenset(cpus)).interrupts == came


def test_processes_allowed_on_the_cpus_are_named_except_pods():
    found = read_visitors(answer(0, 0, 0, 0), frozenset({4})).processes
    assert [each.name for each in found] == ["systemd", "naughty"]
    assert found[1] == Visitor(10, "naughty", "4", "/system.slice/naughty.service")


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_visitors_script_lists_processes_of_this_machine(shell):
    done = subprocess.run(shell.split(), input=visitors_script(0), capture_output=True, text=True, check=True)
    named = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("process ")]
    assert named
    assert all(len(words) == 4 and words[1] for words in named)
    assert done.stderr == ""
    assert read_visitors(done.stdout, frozenset(range(1024))).processes
