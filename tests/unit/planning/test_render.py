"""What the files of a plan say."""

import os
import re
import shlex
import subprocess
from dataclasses import replace
from typing import Any

import pytest
import yaml

from numaforge.lib.errors import KubeletConfigError, PlanError
from numaforge.lib.file_content import PLAN_PATH, WRITTEN_BELOW
from numaforge.lib.resources import template_dir
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.document import loads
from numaforge.planning.files import WRITERS
from numaforge.planning.node import plan_node, with_files
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan
from numaforge.roles.cpus.plan import CpuPlan
from numaforge.roles.hugepages.plan import HugepagesPlan, PlannedPool
from numaforge.roles.kernel_values.plan import TuningPlan
from numaforge.roles.kubelet.delivery import merge, without
from numaforge.roles.kubelet.plan import KubeletPlan
from numaforge.roles.memory.plan import MemoryPlan, NumaNodePlan
from numaforge.roles.rdma.planned import LIBRARY_PATHS
from numaforge.roles.template import lines
from tests.fixtures.role_files import kubelet_files

DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
CONFIG = "/var/lib/kubelet/config.yaml"
KIND = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
SETTINGS: dict[str, Any] = {
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0,8",
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1124Mi"}}],
}


def kubelet(**changes: Any) -> KubeletPlan:
    plan = KubeletPlan(
        version="1.36.3",
        unit="kubelet.service",
        delivery="drop-in",
        settings=SETTINGS,
        config_file=CONFIG,
        config_dir="/etc/kubernetes/kubelet.conf.d",
        drop_in=DROP_IN,
        exec_start="/usr/bin/kubelet $KUBELET_ARGS --config-dir=/etc/kubernetes/kubelet.conf.d",
        root_dir="/var/lib/kubelet",
    )
    return replace(plan, **changes)


def plan_with(
    kubelet_plan: KubeletPlan | None = None,
    tuning: TuningPlan | None = None,
    hugepages: dict[str, int] | None = None,
) -> NodePlan:
    cpus = frozenset(range(16))
    node = NumaNodePlan(0, cpus, frozenset({0, 8}), 2**34, 2**30, 2**33)
    pools = tuple(PlannedPool(0, size, pages) for size, pages in (hugepages or {}).items())
    plan = NodePlan(
        hostname="gpu-1",
        profile="training",
        cpus=CpuPlan(cpus, frozenset({0, 8}), cpus - {0, 8}),
        memory=MemoryPlan(2**34, 0, 2**30, 100 * 2**20, numa_nodes=(node,)),
        tuning=tuning or TuningPlan(),
        kubelet=kubelet_plan,
        files=(),
        allocatable=None,
        decisions=(),
        notices=(),
        hugepages=HugepagesPlan(pools),
    )
    return with_files(plan)


TUNED = TuningPlan(
    governors={1: "performance", 0: "performance"},
    sysctls={"vm.swappiness": "1", "net.ipv4.tcp_rmem": "4096 131072 6291456"},
    transparent_hugepages={"enabled": "madvise"},
    swap_off=True,
)
MERGED = kubelet(delivery="merge", config_dir=None, drop_in=None, exec_start=None)


HEADER = "# Written by numaforge from the profile training. Do not edit: change that and run again."


def test_every_planned_file_is_rendered_with_its_header():
    plan = plan_with(kubelet(), TUNED, {"2Mi": 512})
    texts = render_plan(plan)
    assert list(texts) == [file.path for file in plan.files]
    assert all(text.endswith("\n") and not text.endswith("\n\n") for text in texts.values())
    assert loads(texts.pop(PLAN_PATH)) == plan
    assert {text.splitlines()[0] for text in texts.values()} == {HEADER}


def test_drop_in_is_a_complete_kubelet_configuration():
    assert yaml.safe_load(render_plan(plan_with(kubelet()))[DROP_IN]) == {**KIND, **SETTINGS}


def test_unit_drop_in_resets_the_command_before_setting_it():
    text = render_plan(plan_with(kubelet()))["/etc/systemd/system/kubelet.service.d/90-numaforge.conf"]
    assert text.splitlines()[1:] == [
        "[Service]",
        "ExecStart=",
        "ExecStart=/usr/bin/kubelet $KUBELET_ARGS --config-dir=/etc/kubernetes/kubelet.conf.d",
    ]


def test_unit_variable_gets_the_flag_and_the_command_stays():
    texts = render_plan(plan_with(kubelet(exec_start=None, variable="KUBELET_EXTRA_ARGS")))
    unit = texts["/etc/systemd/system/kubelet.service.d/90-numaforge.conf"]
    assert lines(unit) == [
        "[Service]",
        "EnvironmentFile=-/run/numaforge/kubelet-arguments",
        "ExecStartPre=/bin/rm -f /run/numaforge/kubelet-arguments",
        (
            "ExecStartPre=/bin/sh /var/lib/numaforge/lib/kubelet-arguments.sh "
            "/run/numaforge/kubelet-arguments KUBELET_EXTRA_ARGS --config-dir=/etc/kubernetes/kubelet.conf.d"
        ),
    ]


@pytest.mark.parametrize("value", ["", "--v=2", r"""--node-labels="a=b c" --x='\n$HOME`id`' """])
@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_variable_keeps_existing_arguments(shell, value, tmp_path):
    file = tmp_path / "new/arguments"
    texts = render_plan(plan_with(kubelet(exec_start=None, variable="ARGS")))
    command = [*shell.split(), "-s", str(file), "ARGS", "--config-dir=/k.d"]
    script, env = texts["/var/lib/numaforge/lib/kubelet-arguments.sh"], {"PATH": os.environ["PATH"]}
    subprocess.run(command, input=script, env={**env, "ARGS": value}, text=True, check=True)
    name, _, quoted = file.read_text().strip().partition("=")
    # systemd.exec(5): in double quotes, a backslash escapes a quote, a backslash, a dollar and a backtick
    unescaped = re.sub(r'\\(["\\$`])', r"\1", quoted.removeprefix('"').removesuffix('"'))
    assert (name, unescaped) == ("ARGS", f"{value} --config-dir=/k.d")


NODE = "/sys/devices/system/node/node0/hugepages"
FILES = {
    "/etc/tmpfiles.d/numaforge-tuning.conf": [
        "w /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor - - - - performance",
        "w /sys/devices/system/cpu/cpu1/cpufreq/scaling_governor - - - - performance",
        "w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise",
    ],
    "/etc/sysctl.d/90-numaforge.conf": [
        "net.ipv4.tcp_rmem = 4096 131072 6291456",
        "vm.swappiness = 1",
    ],
    "/etc/tmpfiles.d/numaforge-hugepages.conf": [
        f"w {NODE}/hugepages-1048576kB/nr_hugepages - - - - 2",
        f"w {NODE}/hugepages-2048kB/nr_hugepages - - - - 512",
    ],
}


@pytest.mark.parametrize("path", FILES)
def test_kernel_values_and_pools_have_a_line_each(path):
    text = render_plan(plan_with(tuning=TUNED, hugepages={"1Gi": 2, "2Mi": 512}))[path]
    assert text.splitlines()[1:] == FILES[path]


TMPFILES = "systemd-tmpfiles --create /etc/tmpfiles.d/numaforge-tuning.conf"


@pytest.mark.parametrize(
    ("tuning", "commands"),
    [
        pytest.param(TuningPlan(swap_off=True), ["swapoff -a"], id="swap-alone"),
        pytest.param(TuningPlan(governors={0: "performance"}), [TMPFILES], id="governors-alone"),
    ],
)
def test_unit_runs_only_planned_commands(tuning, commands):
    text = render_plan(plan_with(tuning=tuning))["/etc/systemd/system/numaforge-tuning.service"]
    assert [line.removeprefix("ExecStart=") for line in text.splitlines() if "ExecStart=" in line] == commands


RAISED = TuningPlan(raised_sysctls={"vm.max_map_count": "262144"})


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
@pytest.mark.parametrize(
    ("held", "after"),
    [
        pytest.param("65530", "262144", id="less-is-raised"),
        pytest.param("262144", "262144", id="the-same-stays"),
        pytest.param("1048576", "1048576", id="more-is-never-lowered"),
        pytest.param("18446744073692774399", "18446744073692774399", id="what-no-shell-counts-to-stays"),
    ],
)
def test_unit_raises_a_limit_and_never_lowers_it(tmp_path, shell, held, after):
    text = render_plan(plan_with(tuning=RAISED))["/etc/systemd/system/numaforge-tuning.service"]
    (command,) = [line.partition("=-")[2] for line in text.splitlines() if "ExecStart=" in line]
    limit = tmp_path / "max_map_count"
    limit.write_text(f"{held}\n")
    # As systemd reads it: quotes as in a shell, "$$" is a dollar.
    words = [word.replace("$$", "$") for word in shlex.split(command)]
    assert words[:2] + words[3:] == ["/bin/sh", "-c", "/proc/sys/vm/max_map_count", "262144"]
    subprocess.run([*shell.split(), "-c", words[2], str(limit), "262144"], check=False)
    assert limit.read_text() == f"{after}\n"


INJECTIONS = {
    "newline": plan_with(tuning=TuningPlan(sysctls={"vm.swappiness": "1\nkernel.panic = 1"})),
    "escape": plan_with(tuning=TuningPlan(sysctls={"vm.swappiness": "1\x1b[2J"})),
    "second-command": plan_with(kubelet(exec_start="/bin/kubelet\nExecStartPre=/bin/evil")),
    "line": plan_with(tuning=TuningPlan(governors={0: "performance\nw /etc/passwd - - - - x"})),
    "header-that-ends-early": replace(plan_with(tuning=TUNED), profile="x\n[Unit]"),
}


@pytest.mark.parametrize("plan", INJECTIONS.values(), ids=INJECTIONS)
def test_file_with_injected_content_is_refused(plan):
    with pytest.raises(PlanError):
        render_plan(plan)


def test_old_kubelet_settings_are_merged_into_the_main_file():
    config = {**KIND, "clusterDomain": "cluster.local", "evictionHard": {"imagefs.available": "15%"}}
    merged = yaml.safe_load(render_plan(plan_with(MERGED), yaml.safe_dump(config))[CONFIG])
    assert merged["clusterDomain"] == "cluster.local"
    assert merged["evictionHard"] == {"imagefs.available": "15%", **SETTINGS["evictionHard"]}


def test_merging_twice_equals_merging_once():
    plan = plan_with(MERGED)
    once = render_plan(plan, yaml.safe_dump({**KIND, "clusterDomain": "cluster.local"}))[CONFIG]
    assert render_plan(plan, once)[CONFIG] == once


def test_settings_merged_by_an_earlier_plan_are_removed():
    retired = {"cpuManagerPolicy": "static", "evictionHard": {"a": "1"}}
    plan = plan_with(replace(MERGED, settings={}, retired=retired))
    text = yaml.safe_dump({**KIND, **retired, "clusterDomain": "cluster.local"})
    left = yaml.safe_load(render_plan(plan, text)[CONFIG])
    assert left == {**KIND, "clusterDomain": "cluster.local"}


def test_drop_in_leaves_the_main_file_alone():
    assert CONFIG not in [file.path for file in kubelet_files(plan_with(kubelet()), yaml.safe_dump(KIND))]


def test_main_file_loses_settings_that_moved_to_a_drop_in():
    plan = plan_with(kubelet(retired={"cpuManagerPolicy": "static"}))
    files = kubelet_files(plan, yaml.safe_dump({**KIND, "cpuManagerPolicy": "static"}))
    assert yaml.safe_load(next(file.text for file in files if file.path == CONFIG)) == KIND


@pytest.mark.parametrize("text", ["a: [", "- a\n- b\n"], ids=["not-yaml", "not-a-mapping"])
def test_unreadable_main_file_is_refused(text):
    with pytest.raises(KubeletConfigError):
        render_plan(plan_with(MERGED), text)


@pytest.mark.parametrize(
    ("base", "patch", "merged"),
    [
        pytest.param({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}, id="mappings-merge"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists-replace"),
        pytest.param({"a": 1}, {"a": None}, {}, id="null-deletes"),
        pytest.param({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}, id="a-mapping-replaces-a-value"),
    ],
)
def test_merging_follows_rfc_7396(base, patch, merged):
    assert merge(base, patch) == merged


@pytest.mark.parametrize(
    ("base", "retired", "left"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"b": 2}, id="still-ours-goes"),
        pytest.param({"a": 3}, {"a": 1}, {"a": 3}, id="changed-by-the-admin-stays"),
        pytest.param({"m": {"x": 1}}, {"m": {"x": 1}}, {}, id="an-emptied-mapping-goes"),
        pytest.param({"m": {"x": 1, "y": 2}}, {"m": {"x": 1}}, {"m": {"y": 2}}, id="a-mapping-in-part"),
        pytest.param({"m": {}}, {"m": {"x": 1}}, {"m": {}}, id="an-empty-mapping-of-the-admin-stays"),
    ],
)
def test_only_unchanged_numaforge_settings_are_removed(base, retired, left):
    assert without(base, retired) == left


def test_every_template_belongs_to_a_role():
    there = {str(path.relative_to(template_dir())) for path in template_dir().glob("*/*.j2")}
    known = [name for writer in WRITERS for name in writer.templates]
    assert sorted(known) == sorted(name for name in there if not name.startswith(("audit/", "init/")))


@pytest.mark.parametrize("name", ["dgx-h100", "epyc-nps4"])
def test_every_file_is_in_a_write_tested_folder_and_not_executable(name):
    machine = ready_machine(name)
    plan = plan_node(machine, load_profile("training"))
    paths = {path for writer in WRITERS for path in writer.paths(plan, machine)}
    paths |= {file.path for file in plan.files}
    for path in paths:
        assert not path.startswith("/usr/")
        assert path.startswith(tuple(f"{folder}/" for folder in WRITTEN_BELOW)) or path in LIBRARY_PATHS
    assert not [file.path for file in plan.files if int(file.mode, 8) & 0o111]
