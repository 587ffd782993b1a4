"""site.py against the virtual node: a real kernel, systemd and kubelet, joined to a real control plane."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lab.cluster import Lab
from lab.node import Node
from lab.paths import REPOSITORY
from numaforge.lib.file_content import PLAN_PATH
from numaforge.planning.document import loads
from tests.lab.rollouts import HEALTHY

CONFIG = "/var/lib/kubelet/config.yaml"
DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
UNIT_DROP_IN = "/etc/systemd/system/kubelet.service.d/90-numaforge.conf"
WRITTEN = f"/etc /var/lib/kubelet/config.yaml -newer {PLAN_PATH} -type f"


def site(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "pyinfra"), "inventories/lab", "deploys/site.py", *arguments],
        cwd=REPOSITORY,
        env=os.environ | {"PYINFRA_PROGRESS": "off"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )


def process(node: Node) -> str:
    return node.run("systemctl show -p MainPID -p NRestarts kubelet.service")


@pytest.fixture
def fresh(lab: Lab) -> Node:
    """The node as it was when it was first Ready."""
    lab.reset()
    return lab.nodes[0]


@pytest.fixture
def provisioned(provision: Callable[[], Node]) -> Node:
    """The provisioned node, also where a test before has put it back."""
    return provision()


def test_dry_run_shows_every_change_and_makes_none(fresh: Node) -> None:
    before = process(fresh)
    run = site("--dry", "--diff")
    assert run.returncode == 0, run.stdout
    for path in (PLAN_PATH, "/etc/sysctl.d/90-numaforge.conf", DROP_IN, UNIT_DROP_IN):
        assert run.stdout.count(f"+++ {path} (planned)") == 1
    assert "the kubelet restarts, because this changes: cpuManagerPolicy" in run.stdout
    assert fresh.run(f"ls {PLAN_PATH} {DROP_IN} 2>&1 || true").count("No such file") == 2
    assert process(fresh) == before


def test_site_provisions_the_node_as_planned(provisioned: Node) -> None:
    plan = loads(provisioned.run(f"cat {PLAN_PATH}"))
    cpu_state = json.loads(provisioned.run("cat /var/lib/kubelet/cpu_manager_state"))
    assert cpu_state["policyName"] == "static"
    memory_state = json.loads(provisioned.run("cat /var/lib/kubelet/memory_manager_state"))
    assert {
        int(node): state["memoryMap"]["memory"]["systemReserved"]
        for node, state in memory_state["machineState"].items()
    } == {node.id: node.reserved_memory_bytes for node in plan.memory.numa_nodes}
    swappiness = provisioned.run("cat /proc/sys/vm/swappiness").strip()
    assert swappiness == plan.tuning.sysctls["vm.swappiness"]


def test_main_kubelet_config_file_of_the_admin_is_kept(provisioned: Node) -> None:
    config = yaml.safe_load(provisioned.run(f"cat {CONFIG}"))
    assert "cpuManagerPolicy" not in config
    assert config["kind"] == "KubeletConfiguration"


def test_second_run_changes_and_restarts_nothing(provisioned: Node) -> None:
    before, touched = process(provisioned), provisioned.run(f"find {WRITTEN}")
    run = site("-y")
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("No changes") == run.stdout.count("Starting operation")
    assert process(provisioned) == before
    assert provisioned.run(f"find {WRITTEN}") == touched


def test_kubelet_restarts_without_a_failure_and_admin_flags_take_effect(provisioned: Node) -> None:
    file = "/etc/default/kubelet"
    provisioned.run(
        f"cp {file} {file}.kept 2> /dev/null || :; echo 'KUBELET_EXTRA_ARGS=\"--v=3 --event-qps=7\"' > {file}"
    )
    provisioned.run(f"systemctl restart kubelet.service; {HEALTHY}; sleep 5")
    assert "NRestarts=0" in process(provisioned)
    arguments = provisioned.run("tr '\\0' '\\n' < /proc/$(systemctl show -p MainPID --value kubelet)/cmdline")
    provisioned.run(f"if [ -e {file}.kept ]; then mv {file}.kept {file}; else rm {file}; fi")
    provisioned.run(f"systemctl restart kubelet.service; {HEALTHY}; sleep 5")
    assert "NRestarts=0" in process(provisioned)
    assert {"--v=3", "--event-qps=7", "--config-dir=/etc/kubernetes/kubelet.conf.d"} <= {*arguments.split()}
    assert "ExecStart=" not in provisioned.run(f"cat {UNIT_DROP_IN}")


def test_systemd_accepts_the_boot_files(provisioned: Node) -> None:
    assert provisioned.run("systemctl is-enabled numaforge-tuning.service").strip() == "enabled"
    provisioned.run("systemd-analyze verify /etc/systemd/system/numaforge-tuning.service")
    governor = "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"
    provisioned.run(f"echo schedutil > {governor}; systemctl restart numaforge-tuning.service")
    assert provisioned.run(f"cat {governor}").strip() == "performance"


@pytest.mark.long
def test_pool_that_the_kernel_cannot_fill_is_rolled_back(fresh: Node) -> None:
    # Node 1's memory is taken by files that nothing can move: locked, and in small pieces.
    fresh.run(
        "mkdir -p /run/filler && mount -t tmpfs -o size=100%,mpol=bind:1 tmpfs /run/filler && "
        "dd if=/dev/zero of=/run/filler/pages bs=1M count=1700 2>/dev/null"
    )
    memory = {"system_reserved": "512Mi", "eviction_hard": {"memory.available": "100Mi"}}
    wish = {"name": "lab", "memory": memory, "hugepages": [{"size": "1Gi", "count_per_numa_node": 1}]}
    run = site("-y", "--data", f"numaforge_profile={json.dumps(wish)}")
    fresh.run("umount /run/filler")
    assert run.returncode == 1, run.stdout
    assert "node1/hugepages/hugepages-1048576kB/nr_hugepages: wanted 1, got 0" in run.stdout
    assert "the old configuration is back and the kubelet is healthy with it" in run.stdout
    counts = fresh.run(
        "cat /sys/devices/system/node/node*/hugepages/hugepages-1048576kB/nr_hugepages"
    ).split()
    assert counts == ["0", "0", "0", "0"]
