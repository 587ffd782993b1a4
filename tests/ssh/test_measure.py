"""Measurements over a real sshd: by real programs, and by stand-ins that hang, flood and lie."""

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest

from numaforge import cli
from numaforge.change.goal import Goal
from numaforge.fleet.measure.record import MEASURED_PATH, MEASUREMENT, Measurement
from numaforge.lib.errors import ExitCode
from numaforge.planning.measure import MeasurePlan
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.run.hosts.capture import answer_of
from numaforge.run.maintenance.machine import PyinfraMachine
from numaforge.run.maintenance.target import Target
from tests.fixtures.machines import two_cpu_vm
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox
from tests.ssh.site_runs import inventory

_CPU, _NODE = "/sys/devices/system/cpu", "/sys/devices/system/node"
_FAST, _SLOW = 4000.0, 400.0


def two_cpus() -> dict[str, str]:
    """The files of a machine that this one is, too: CPUs 0 and 1 in one NUMA node."""
    own = {
        f"{_CPU}/online": "0-1",
        f"{_CPU}/present": "0-1",
        f"{_CPU}/possible": "0-1",
        f"{_CPU}/offline": "",
        f"{_NODE}/online": "0",
        f"{_NODE}/possible": "0",
        f"{_NODE}/node0/cpulist": "0-1",
        f"{_NODE}/node0/distance": "10",
        f"{_NODE}/node0/cpumap": "3",  # what cyclictest asks libnuma for
    }
    for cpu in (0, 1):
        topology = f"{_CPU}/cpu{cpu}/topology"
        own |= {
            f"{topology}/{name}": str(cpu) for name in ("core_id", "core_cpus_list", "thread_siblings_list")
        }
        own |= {f"{topology}/physical_package_id": "0", f"{topology}/package_cpus_list": "0-1"}
        own |= {f"{_CPU}/cpu{cpu}/cache/index3/shared_cpu_list": "0-1"}
    absent = (*(f"{_CPU}/cpu{cpu}/" for cpu in range(2, 8)), f"{_NODE}/node1/")
    kept = {path: text for path, text in machine().items() if not path.startswith(absent)}
    return {**kept, **{path: f"{text}\n" for path, text in own.items()}}


def stand_ins(sysbench: str) -> dict[str, str]:
    """Programs in place of Debian's, of which sysbench does what it is given where it reads in order."""
    binds = (
        "#!/bin/sh\nwhile case ${1-} in --version) echo numactl 2.0; exit ;; --*) ;; *) false ;; esac\n"
        'do shift; done\nexec "$@"\n'
    )
    says = f"case $* in --version) echo 'sysbench 1.0.20' ;; *=rnd*) {rate(100)} ;; *)"
    return {
        "/usr/local/bin/numactl": binds,
        "/usr/local/bin/sysbench": f"#!/bin/sh\n{says} {sysbench} ;; esac\n",
        "/usr/local/bin/rtla": "#!/bin/sh\nexit 1\n",
        "/usr/local/bin/cyclictest": "#!/bin/sh\n"
        "case $1 in --help) echo 'cyclictest V 2.40' ;; *) "
        "echo 'T: 0 (  136) P:95 I:1000 C:   1987 Min:     4 Act:    5 Avg:    6 Max:      31' ;; esac\n",
    }


def rate(mebibytes: float) -> str:
    return f"echo '1.00 MiB transferred ({mebibytes:.2f} MiB/sec)'"


def measure(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = cli.run(["measure", "-o", "json", "-q", *words])
    said = capfd.readouterr()
    assert said.out, said.err
    return code, json.loads(said.out)


def host_words(node: Sandbox) -> list[str]:
    data = {name: value for name, value in node.data().items() if name not in ("ssh_hostname", "ssh_port")}
    return [
        f"127.0.0.1:{node.port}",
        *(word for name, value in data.items() for word in ("--data", f"{name}={value}")),
    ]


def kept(node: Sandbox) -> Measurement:
    return MEASUREMENT.loads(node.path(MEASURED_PATH).read_text())


@pytest.mark.skipif(
    not all(map(shutil.which, ("sysbench", "numactl", "cyclictest"))),
    reason="sysbench, numactl and cyclictest are not installed; `make test` installs them",
)
def test_real_programs_measure_a_host_and_the_figures_are_kept(start_sandbox, capfd):
    node = start_sandbox(two_cpus())
    code, document = measure(capfd, *host_words(node), "--seconds", "1", "--runs", "2")
    (measured,) = (each["measurement"] for each in document["machines"].values())
    figures = {each["kind"]: each for each in measured["figures"]}
    assert code == ExitCode.YES
    assert (figures["memory-bandwidth"]["unit"], figures["memory-bandwidth"]["runs"]) == ("MB/s", 2)
    assert figures["memory-bandwidth"]["lowest"] > 100
    assert {each["kind"] for each in measured["not_measured"]} <= {"memory-latency", "os-noise"}
    assert 0 < figures["timer-latency"]["median"] < 1e6
    assert measured["programs"]["sysbench"].startswith("sysbench 1.0")
    assert kept(node) == MEASUREMENT.decode(measured)
    code, again = measure(capfd, *host_words(node), "--last")
    assert (code, [each["measurement"] for each in again["machines"].values()]) == (ExitCode.YES, [measured])


HOSTILE = {
    "hangs": ("sleep 100", "sysbench: it ran into its time limit of 16 s"),
    "floods": ("yes", "sysbench: it prints without end"),
    "lies": (rate(1e12), "sysbench: '1000000000000.00"),
    "speaks another language": (
        "echo '1,00 MiB transferred (4.000,00 MiB/sec)'",
        "'4.000,00' is not a valid rate",
    ),
    "is not what it seems": (
        "echo numaforge ended 0; exit 1",
        "sysbench: it ended with 1: numaforge ended 0",
    ),
}


@pytest.mark.variants(2)
@pytest.mark.parametrize(("sysbench", "why"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_program_costs_one_line(start_sandbox, capfd, sysbench, why):
    node = start_sandbox({**two_cpus(), **stand_ins(sysbench)})
    code, document = measure(capfd, *host_words(node), "--seconds", "1", "--runs", "1")
    (measured,) = (each["measurement"] for each in document["machines"].values())
    assert code == ExitCode.YES
    assert why in {each["kind"]: each["why"] for each in measured["not_measured"]}["memory-bandwidth"] or (
        "cannot be" in str(measured["not_measured"])
    )
    assert {each["kind"] for each in measured["figures"]} == {"memory-random", "timer-latency"}


@pytest.mark.long
def test_slow_sibling_is_listed_first_and_held(start_sandbox, tmp_path, capfd):
    rates = {"gpu-1": _FAST, "gpu-2": _SLOW, "gpu-3": _FAST, "gpu-4": _FAST * 1.1}
    nodes = {name: start_sandbox({**two_cpus(), **stand_ins(rate(each))}) for name, each in rates.items()}
    hosts = str(inventory(tmp_path, {name: node.data() for name, node in nodes.items()}))
    code, document = measure(capfd, hosts, "--seconds", "1", "--runs", "1")
    assert code == ExitCode.NO
    assert next(iter(document["machines"])) == "gpu-2"
    assert "3 siblings have 4194.3" in document["machines"]["gpu-2"]["slow"][0]
    assert not any(document["machines"][name]["slow"] for name in rates if name != "gpu-2")
    assert held(nodes["gpu-2"])[0].startswith("memory read, in order of NUMA node 0: 419.43 MB/s")
    assert held(nodes["gpu-1"]) == ()

    nodes["gpu-2"].path("/usr/local/bin/sysbench").write_text(
        stand_ins(rate(_FAST))["/usr/local/bin/sysbench"]
    )
    code, document = measure(capfd, hosts, "--limit", "gpu-2", "--seconds", "1", "--runs", "1")
    assert (code, [*document["machines"]]) == (ExitCode.YES, ["gpu-2"])
    assert held(nodes["gpu-2"]) == ()


def held(node: Sandbox) -> tuple[str, ...]:
    """Ask the gate of a roll-out about a host, as it does: over the host's connection."""
    planned = plan_node(two_cpu_vm(), load_profile("cpu-only"))
    goal = Goal(replace(planned, measure=MeasurePlan(0.8)), two_cpu_vm(), frozenset())
    return answer_of("node", node.data(), lambda host: PyinfraMachine(host, Target(goal), None).held())


def test_unmeasured_node_is_held_and_the_command_named(start_sandbox):
    (why,) = held(start_sandbox(two_cpus()))
    assert why == ("it was not measured: run `numaforge measure INVENTORY --limit node --kubeconfig FILE`")


def test_unreadable_measurement_holds_the_node(start_sandbox):
    node = start_sandbox({**two_cpus(), MEASURED_PATH: '{"schema": 1, "figures": "many"}\n'})
    node.run(f"mkdir -p /var/lib/numaforge && echo '{{}}' > {MEASURED_PATH}")
    (why,) = held(node)
    assert "the measurement has schema None" in why


def test_host_with_a_running_pod_is_not_measured(start_sandbox, capfd):
    keeper = "#!/bin/sh\nsleep 1000\n"
    node = start_sandbox({**two_cpus(), **stand_ins(rate(_FAST)), "/usr/local/bin/conmon": keeper})
    node.run("setsid /usr/local/bin/conmon /var/log/pods/team_job_1 > /dev/null 2>&1 < /dev/null &")
    assert cli.run(["measure", *host_words(node), "-q"]) == ExitCode.NO
    assert "it is in use: process" in capfd.readouterr().err
    assert not node.path(MEASURED_PATH).exists()
    code, document = measure(capfd, *host_words(node), "--seconds", "1", "--runs", "1", "--in-use")
    assert code == ExitCode.YES
    (measured,) = (each["measurement"] for each in document["machines"].values())
    assert "(conmon)" in measured["in_use"][0]
