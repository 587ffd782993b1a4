"""The verification suite's own parts: what a plan promises, how a host is read, what means the same."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.kubelet.config.comparison import differences
from numaforge.lib.errors import HostError
from numaforge.lib.file_content import PlannedFile
from numaforge.machine.topology.model import IdleState
from numaforge.planning.capacity import PredictedAllocatable
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_file, render_plan
from numaforge.roles.hugepages.files import HUGEPAGES_TMPFILES_PATH
from numaforge.roles.hugepages.plan import HugepagesPlan
from numaforge.roles.kernel_cmdline.plan import KernelPlan
from numaforge.roles.kernel_values.plan import TuningPlan
from numaforge.roles.machine.promises import HOSTNAME, ONLINE
from numaforge.verification import suite, table
from numaforge.verification.cluster import ApiServer
from numaforge.verification.live import Live, VerifiedNode, planned_texts, probe, read_live
from numaforge.verification.reach import ReachedHost, reached_host, read_hosts, write_hosts
from numaforge.verification.table import all_promises, choices, entries
from tests.fixtures import machines
from tests.fixtures.tables import cases

PROFILE = {
    "name": "training",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"kube_reserved": "256Mi", "system_reserved": "256Mi"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 64}],
    "tuning": {
        "governor": "performance",
        "sysctls": {"vm.swappiness": 1, "vm.max_map_count": 1048576},
        "transparent_hugepages": "madvise",
        "swap": "off",
        "cpu_idle": {"deepest": "C1"},
        "turbo": True,
        "ksm": False,
    },
    "kernel": {"cmdline": ["iommu=pt"]},
    "maintenance": {"reboot": "allowed"},
}


MACHINE = replace(
    machines.lab_node(),
    idle_states=(IdleState(1, "C1", 1, frozenset({0, 1})), IdleState(2, "C6", 90, frozenset({0, 1}))),
    kernel_values={
        "/sys/devices/system/cpu/intel_pstate/no_turbo": "0",
        "/sys/kernel/mm/ksm/run": "0",
        **machines.transparent_hugepages(enabled="always"),
    },
)


@pytest.fixture
def plan() -> NodePlan:
    return plan_node(MACHINE, load_profile(PROFILE))


# ---- what a plan promises ----


@cases(
    "roles, seen_to",
    {
        "neither": (["topology", "tuning"], False),
        "its-own-role": (["topology", "hugepages"], True),
        "the-kubelet-that-offers-them": (["topology", "kubelet"], True),
    },
)
def test_huge_pages_are_checked_with_their_role_or_kubelet(plan, roles, seen_to):
    assert ("hugepages:2Mi on NUMA node 0" in entries(plan, "kernel_value", roles)) is seen_to
    assert (HUGEPAGES_TMPFILES_PATH in entries(plan, "file_content", roles)) is seen_to


@pytest.mark.parametrize(
    ("test", "names"),
    [
        (
            "the_machine_is_the_one_of_the_plan",
            ["hostname", "online-cpus", *(f"numa-node-{n}" for n in range(4))],
        ),
        (
            "kernel_value",
            [
                "kernel_cmdline",
                "governor",
                "idle_state:2",
                "kernel_value:turbo",
                "kernel_value:ksm",
                "kernel_value:transparent_hugepages.enabled",
                "sysctl:vm.swappiness",
                "sysctl:vm.max_map_count",
                "swap",
                *(f"hugepages:2Mi on NUMA node {node}" for node in range(4)),
            ],
        ),
        ("unit_starts_at_boot", ["numaforge-tuning.service", "kubelet.service"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_setting_is_one_promise_named_after_it(plan, test, names):
    assert list(entries(plan, test)) == names


def test_every_planned_file_is_a_promise(plan):
    assert set(entries(plan, "file_content")) == {file.path for file in plan.files}


def test_plan_read_back_from_host_renders_the_same_files(plan):
    assert render_plan(loads(dumps(plan))) == render_plan(plan)


def test_every_setting_of_the_kubelet_is_a_promise(plan):
    assert entries(plan, "running_kubelet") == plan.kubelet.settings


def test_allocatable_is_promised_in_kubernetes_names(plan):
    allocatable = PredictedAllocatable(7500, 2**30, {"2Mi": 2**29}, {"nvidia.com/gpu": 8})
    assert entries(replace(plan, allocatable=allocatable), "allocatable") == {
        "cpu": "7500m",
        "memory": "1Gi",
        "hugepages-2Mi": "512Mi",
        "nvidia.com/gpu": "8",
    }


def test_smallest_plan_has_the_minimum_promises():
    plan = plan_node(replace(machines.two_cpu_vm(), kubelet=None), load_profile({"name": "detect"}))
    assert table.count(plan) >= table.at_least(plan)


def test_emptied_plan_is_detected_by_too_few_promises(plan):
    kubelet = replace(plan.kubelet, settings={})
    hollow = replace(
        plan, files=(), allocatable=None, tuning=TuningPlan(), kernel=KernelPlan(), kubelet=kubelet
    )
    promised = replace(hollow, hugepages=HugepagesPlan())
    assert table.count(replace(promised, kubelet=None)) < table.at_least(promised)


# ---- how a host is read ----


def read_here(plan: NodePlan) -> Live:
    answer = subprocess.run(["sh", "-c", probe(plan)], capture_output=True, text=True, check=True)
    return read_live(answer.stdout, plan)


def test_probe_reads_this_machine(plan):
    live = read_here(replace(plan, files=plan.files[:1], kubelet=None))
    assert live.values[ONLINE] == Path(ONLINE).read_text().strip()
    assert live.values[HOSTNAME] == Path(HOSTNAME).read_text().strip()


def test_interrupt_and_slice_probe_runs_without_errors(plan):
    cpu = frozenset({0})
    wish = replace(
        plan.interrupts, devices={"0000:00:00.0": cpu}, rps={"lo": cpu}, irqbalance="reserved", banned=cpu
    )
    busy = replace(plan, interrupts=wish, system=replace(plan.system, slices={"system.slice": cpu}))
    script = probe(replace(busy, files=plan.files[:1], kubelet=None))
    answer = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stderr == ""
    assert "/sys/class/net/lo/queues/rx-0/rps_cpus" in read_live(answer.stdout, busy).values


def test_probe_sends_edited_files_only(plan, tmp_path):
    paths = [str(tmp_path / name) for name in ("kept", "edited", "missing")]
    files = tuple(replace(file, path=path) for file, path in zip(plan.files, paths, strict=False))
    here = replace(plan, files=files, kubelet=None)
    Path(paths[0]).write_text("as planned\n")
    Path(paths[1]).write_text("as planned\n# mine\n")
    known = ["as planned\n"]
    answer = subprocess.run(["sh", "-c", probe(here, known)], capture_output=True, text=True, check=True)
    sent = [line for line in answer.stdout.splitlines() if line.startswith("file ")]
    assert sent == [f"file {paths[1]}"]
    live = read_live(answer.stdout, here, known)
    assert [file.text for file in live.files.values()] == ["as planned\n", "as planned\n# mine\n"]
    assert [*live.changed] == paths[:2]


def test_files_known_from_the_plan_are_not_fetched(plan):
    assert {*planned_texts(plan)} >= {render_file(plan, file) for file in plan.files}
    broken = replace(plan.files[0], path="/etc/strange", template="no-such.j2")
    assert planned_texts(replace(plan, files=(broken,))) == []


def test_probe_reads_files_with_modes_and_skips_missing_ones(plan, tmp_path):
    here = tmp_path / "it's here.conf"
    here.write_bytes(b"first\nfiles\nno newline at the end \xff")
    here.chmod(0o640)
    missing = tmp_path / "missing.conf"
    files = tuple(PlannedFile(str(path), "tuning", None) for path in (here, missing))
    live = read_here(replace(plan, files=files, kubelet=None))
    assert set(live.files) == {str(here)}
    assert live.files[str(here)].mode == "0640"
    assert live.files[str(here)].text == "first\nfiles\nno newline at the end \udcff"
    assert live.changed[str(here)] == int(here.stat().st_mtime)


def live_with(**kubelet: str) -> Live:
    return Live({HOSTNAME: "GPU-1"}, said={"kubelet": [*kubelet.items()]})


@cases(
    "arguments, name",
    {
        "the host's name in lower case": ("/usr/bin/kubelet --v=2 ", "gpu-1"),
        "the flag's value": ("/usr/bin/kubelet --hostname-override=worker-7 ", "worker-7"),
        "the flag's next word": ("/usr/bin/kubelet --hostname-override worker-7 ", "worker-7"),
    },
)
def test_node_name_is_hostname_or_kubelet_override(arguments, name):
    assert live_with(arguments=arguments).node_name == name


def test_kubelet_start_time_is_counted_from_boot():
    assert (
        live_with(since="40500000", uptime="100.50 180.00", now="1700000100").kubelet_started == 1700000040.0
    )


# ---- when settings mean the same ----


@cases(
    "expected, actual",
    {
        "quantities": ("1Gi", "1024Mi"),
        "durations": ("60s", "1m0s"),
        "the kubelet's defaults besides": (
            {"memory.available": "100Mi"},
            {"memory.available": "100Mi", "nodefs.available": "10%"},
        ),
        "lists": (
            [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
            [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        ),
        "nothing in a mapping": ({}, None),
        "empty text": ("", None),
        "booleans": (True, True),
    },
)
def test_equivalent_settings_do_not_differ(expected, actual):
    assert differences("field", expected, actual) == []


@cases(
    "expected, actual, complaint",
    {
        "another value": ("static", "none", "field is 'none', planned 'static'"),
        "missing": ("static", None, "field is None, planned 'static'"),
        "a missing option": (
            {"full-pcpus-only": "true"},
            None,
            "field.full-pcpus-only is None, planned 'true'",
        ),
        "a shorter list": ([1, 2], [1], "field has 1 entries instead of 2: [1]"),
        "a longer list": ([1], [1, 2], "field has 2 entries instead of 1: [1, 2]"),
        "deep inside": (
            [{"limits": {"memory": "1Gi"}}],
            [{"limits": {"memory": "1023Mi"}}],
            "field[0].limits.memory is '1023Mi', planned '1Gi'",
        ),
        "a text is no boolean": (True, "true", "field is 'true', planned True"),
    },
)
def test_different_settings_are_reported(expected, actual, complaint):
    assert differences("field", expected, actual) == [complaint]


# ---- what the cluster says ----


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """Put a program called kubectl in PATH that answers from files and counts its calls."""

    def install(body: str) -> Path:
        program = tmp_path / "kubectl"
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{body}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return tmp_path / "calls"

    return install


def test_running_config_comes_from_kubelet_and_is_fetched_once(kubectl):
    calls = kubectl("""echo '{"kubeletconfig": {"cpuManagerPolicy": "static"}}'""")
    cluster = ApiServer("/root/admin.conf")
    assert [cluster.running_config("gpu-1") for _ in range(2)] == [{"cpuManagerPolicy": "static"}] * 2
    assert calls.read_text().splitlines() == [
        "--kubeconfig /root/admin.conf --request-timeout=20s get --raw /api/v1/nodes/gpu-1/proxy/configz"
    ]


def test_cluster_error_fails_the_test_with_its_message(kubectl):
    kubectl("echo 'Error from server (NotFound): nodes gpu-1 not found' >&2; exit 1")
    with pytest.raises(pytest.fail.Exception, match="nodes gpu-1 not found"):
        ApiServer("/root/admin.conf").resources("gpu-1", "allocatable")


def test_missing_kubectl_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match="cannot run kubectl"):
        ApiServer("/root/admin.conf").resources("gpu-1", "allocatable")


# ---- how a host is reached ----


def test_suite_gets_only_login_data_in_a_private_file(tmp_path):
    data = {"ssh_port": 2222, "ssh_password": "secret", "numaforge_profile": "h100", "ssh_user": None}
    host = reached_host("gpu-1", "OpenSshConnector", data)
    write_hosts([host], tmp_path / "hosts")
    assert host == ReachedHost("gpu-1", {"ssh_port": 2222, "ssh_password": "secret"})
    assert (tmp_path / "hosts").stat().st_mode & 0o777 == 0o600
    assert [found.backend.get_pytest_id() for found in read_hosts(tmp_path / "hosts")] == ["ssh://gpu-1"]


@cases(
    "config, unreachable, why",
    {
        "what-is-wrong-here-is-no-silence": ("Prot 22\n", False, "ssh cannot use its configuration"),
        "a-host-that-does-not-answer": ("HostName 127.0.0.1\nPort 1\n", True, "cannot connect to"),
    },
)
def test_only_unresponsive_host_counts_as_unreachable(tmp_path, config, unreachable, why):
    (tmp_path / why).write_text(config)
    write_hosts([ReachedHost("gpu-1", {"ssh_config_file": str(tmp_path / why)})], tmp_path / "hosts")
    (host,) = read_hosts(tmp_path / "hosts")
    node = VerifiedNode(host)
    assert why in str(node.plan_or_reason)
    assert node.unreachable is unreachable


def test_local_machine_needs_no_login(tmp_path):
    write_hosts([reached_host("@local", "LocalConnector", {"ssh_user": "root"})], tmp_path / "hosts")
    assert [found.backend.get_pytest_id() for found in read_hosts(tmp_path / "hosts")] == ["local"]


def test_unsupported_connector_is_refused_by_name():
    with pytest.raises(HostError, match=r"@docker/node: .* over DockerConnector"):
        reached_host("@docker/node", "DockerConnector", {})


# ---- a run of the suite ----


def run_suite(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    hosts = folder.with_name(f"{folder.name}-hosts")
    write_hosts([ReachedHost("@local")], hosts)
    command = suite.command(hosts, *arguments)
    return subprocess.run(
        command, cwd=folder, env=suite.environment(), capture_output=True, text=True, check=False
    )


def test_without_hosts_the_suite_refuses_to_run():
    run = subprocess.run(
        [*(sys.executable, "-m", "pytest", "-p", "numaforge.verification.plugin"), str(suite.FOLDER)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "name them with --hosts=ssh://NAME" in run.stderr


def test_suite_ignores_files_in_the_working_directory(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    (tmp_path / "testinfra.py").write_text("raise SystemExit(9)\n")  # a name that the suite imports
    run = run_suite(tmp_path, "--collect-only", "--kubeconfig", str(tmp_path / "test_own.py"))
    assert "test_own" not in run.stdout
    assert "test_node.py::test_the_host_has_a_plan_that_promises_something[local]" in run.stdout


def test_suite_ignores_the_environment_and_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    assert "test_node.py::" in run_suite(tmp_path, "--collect-only").stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(Path("/etc/numaforge/plan.json").exists(), reason="this machine has a plan")
@pytest.mark.skipif(os.getuid() != 0, reason="reads this machine as root")
def test_a_host_without_a_plan_fails_with_one_message(tmp_path):
    run = run_suite(tmp_path)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert "local: has no /etc/numaforge/plan.json" in run.stdout
    assert "1 failed" in run.stdout
    assert "passed" not in run.stdout


@pytest.mark.skipif(Path("/etc/numaforge/plan.json").exists(), reason="this machine has a plan")
@pytest.mark.skipif(os.getuid() != 0, reason="reads this machine as root")
def test_partial_suite_fails_on_host_without_plan(tmp_path):
    run = run_suite(tmp_path, "-k", "governor")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "has no /etc/numaforge/plan.json" in run.stderr


MARKS = """
import json
from numaforge.verification import test_node
tests = {name: test for name, test in vars(test_node).items() if name.startswith("test_")}
marks = {name: getattr(test, "pytestmark", ()) for name, test in tests.items()}
print(json.dumps({name: [mark.kwargs for mark in marks] for name, marks in marks.items()}))
"""


def test_each_suite_test_checks_only_its_own_promise():
    """One function may hold several promises; those of one name, which are one test, have one function."""
    done = subprocess.run([sys.executable, "-c", MARKS], capture_output=True, text=True, check=True)
    marks = json.loads(done.stdout)
    names = {promise.name: promise.holds for _, promise in all_promises()}
    assert marks == {
        "test_the_host_has_a_plan_that_promises_something": [],
        "test_no_change_of_the_host_is_unfinished": [],
        **{f"test_{name}": [{"name": name}] for name in names},
    }
    assert all(promise.holds is names[promise.name] for _, promise in all_promises())


def test_every_deployed_role_can_select_promises():
    """As after deploys/amd_partitions.py: `verify --roles topology,amd_partitions,kubelet`."""
    deploys = Path(__file__).parents[3] / "deploys"
    called = {
        name
        for file in deploys.glob("[a-z]*.py")
        for name in re.findall(r"^(?:    )?(\w+)\(\)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert called - {*choices()} == {"record", "removal", "forget", "image"}  # these leave no plan on a node
    assert {"tuning", "amd_partitions", "imex"} <= called
