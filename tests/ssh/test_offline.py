"""CPUs that go offline over a real sshd: with the kubelet stopped, in one maintenance, and back again."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from numaforge.change.transaction import Transaction
from numaforge.roles.kernel_values import part as kernel_values
from numaforge.roles.kernel_values.files import TUNING_TMPFILES_PATH
from numaforge.roles.kernel_values.part import RECORD
from numaforge.roles.kernel_values.paths import online
from numaforge.roles.kubelet import part as kubelet
from tests.fixtures.shortened import shortened
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import KUBELET_WAIT
from tests.ssh.machine import CPUS, governor
from tests.ssh.sandbox import Sandbox, pyinfra
from tests.ssh.standin_systemd import DROP_IN, STATE
from tests.ssh.transactions import KILL, when
from tests.ssh.transactions import run as finished

pytestmark = pytest.mark.core(
    "test_kubelet_starts_on_the_remaining_cpus",
    "test_cpu_kept_online_by_the_kernel_rolls_everything_back",
    "test_without_the_kubelet_role_cpus_stay_online",
)
SWAPPINESS = "/proc/sys/vm/swappiness"
ONLINE = "/sys/devices/system/cpu/online"
WHOLE: dict[str, Any] = {
    "name": "sandbox",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "kubelet": {"cpu_manager_policy": "static"},
    "tuning": {"governor": "performance"},
}
SMT_OFF: dict[str, Any] = {**WHOLE, "cpus": {**WHOLE["cpus"], "smt": "off"}}

# What the kernel does when a switch is written: an offline CPU keeps its switch and nothing else. No file
# sees that it is written, so with "come" it brings the files of CPUs that are about to come online.
KERNEL = """
mkdir -p /run/gone
list=
for cpu in 0 1 2 3 4 5 6 7; do
    folder=/sys/devices/system/cpu/cpu$cpu gone=/run/gone/cpu$cpu
    mkdir -p "$gone"
    if [ "$1" = come ] || [ "$(cat "$folder/online")" = 1 ]; then
        list=$list${list:+,}$cpu
        from=$gone to=$folder
    else
        from=$folder to=$gone
    fi
    for part in topology cache cpufreq; do
        if [ -e "$from/$part" ]; then mv "$from/$part" "$to/$part"; fi
    done
done
[ "$1" != come ] || exit 0
case $list in 0,1,2,3,4,5,6,7) list=0-7 ;; esac
echo "$list" > /sys/devices/system/cpu/online
"""


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node whose kubelet runs, and a kernel."""
    kernel = {"/usr/local/bin/kernel": f"#!/bin/sh\n{KERNEL}"}
    sandbox = start_kubelet(start_sandbox({**kubeadm_files(port), **kernel}), port)
    sandbox.run("mkdir -p /run/when")
    return sandbox


def run(
    node: Sandbox, folder: Path, profile: object, *arguments: str, deploy: str = "site"
) -> tuple[int, str]:
    data = {**node.data(), **KUBELET_WAIT, "numaforge_profile": profile}
    for phase, word in {"apply kernel_values": "come", "start kubelet": "", "undo files": ""}.items():
        node.path(f"/run/when/{phase}").write_text(f"/usr/local/bin/kernel {word}\n")
    done = pyinfra(folder, {"node": data}, *(arguments or ("-y",)), f"deploys/{deploy}.py")
    return done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


def text(node: Sandbox, path: str) -> str:
    return node.path(path).read_text().strip()


def switches(node: Sandbox) -> str:
    return "".join(text(node, f"/sys/devices/system/cpu/cpu{cpu}/online") for cpu in CPUS)


def starts(node: Sandbox) -> int:
    return text(node, "/run/systemctl.log").count("start kubelet.service")


def applied(node: Sandbox, folder: Path, profile: object) -> str:
    code, output = run(node, folder, profile)
    assert code == 0, output
    return output


def test_kubelet_starts_on_the_remaining_cpus(node: Sandbox, tmp_path: Path) -> None:
    applied(node, tmp_path, WHOLE)
    before = starts(node)
    output = applied(node, tmp_path, SMT_OFF)
    assert switches(node) == "11110000"
    assert f"{STATE} is removed" in output
    assert json.loads(text(node, STATE))["seen"] == "0,1,2,3"
    assert "reservedSystemCPUs: 0,2" in text(node, DROP_IN).replace('"', "").replace("'", "")
    assert starts(node) == before + 2


def test_a_second_run_changes_nothing(node: Sandbox, tmp_path: Path) -> None:
    applied(node, tmp_path, SMT_OFF)
    assert "noop: the node is already as planned" in run(node, tmp_path, SMT_OFF, "-y", "-v")[1]


def test_boot_takes_cpus_offline_before_the_kubelet_starts(node: Sandbox, tmp_path: Path) -> None:
    applied(node, tmp_path, SMT_OFF)
    lines = text(node, TUNING_TMPFILES_PATH).splitlines()
    assert [line for line in lines if "/online" in line] == [
        f"w /sys/devices/system/cpu/cpu{cpu}/online - - - - 0" for cpu in range(4, 8)
    ]
    assert not [line for line in lines if "cpu4/cpufreq" in line]


@pytest.mark.long
def test_dropping_the_setting_brings_cpus_back_online(node: Sandbox, tmp_path: Path) -> None:
    applied(node, tmp_path, WHOLE)
    record, drop_in = text(node, RECORD), text(node, DROP_IN)
    applied(node, tmp_path, SMT_OFF)
    assert "CPUs 4-7: offline -> online, as before numaforge" in run(node, tmp_path, WHOLE, "--dry")[1]
    applied(node, tmp_path, WHOLE)
    assert (switches(node), text(node, ONLINE)) == ("11111111", "0-7")
    assert {text(node, governor(cpu)) for cpu in CPUS} == {"performance"}
    assert sorted(text(node, RECORD).splitlines()) == sorted(record.splitlines())
    assert text(node, DROP_IN) == drop_in
    assert json.loads(text(node, STATE))["seen"] == "0-7"


def test_cpu_kept_online_by_the_kernel_rolls_everything_back(node: Sandbox, tmp_path: Path) -> None:
    applied(node, tmp_path, WHOLE)
    before = {path: text(node, path) for path in (STATE, DROP_IN, RECORD)}
    switch = "/sys/devices/system/cpu/cpu6/online"
    node.run(f"mount --bind {switch} {switch}; mount -o remount,bind,ro {switch}")
    code, output = run(node, tmp_path, SMT_OFF)
    assert code == 1
    assert f"{switch}: the kernel refuses the value 0" in output
    assert switches(node) == "11111111"
    assert {path: text(node, path) for path in before} == before


def test_dry_run_lists_cpus_to_offline_and_changes_none(node: Sandbox, tmp_path: Path) -> None:
    code, output = run(node, tmp_path, SMT_OFF, "--dry")
    assert code == 0, output
    assert re.search(r"CPUs 4-7 +online -> offline", output), output
    assert switches(node) == "11111111"


def test_without_the_kubelet_role_cpus_stay_online(node: Sandbox, tmp_path: Path) -> None:
    code, output = run(node, tmp_path, SMT_OFF, deploy="tune")
    assert code == 1
    assert "CPUs come and go only while the kubelet is stopped" in output
    assert "run deploys/site.py" in output
    assert switches(node) == "11111111"


# ---- broken off ----

SWITCHES = {online(cpu): cpu for cpu in (6, 7)}
FAULTS = ("apply kernel_values", ".numaforge-new", "apply kubelet", "start kubelet", "prove kubelet again")


def change(port: int, *, going: bool) -> Transaction:
    """Return a change that takes two CPUs offline, or brings them back with a governor that is planned."""
    if going:
        values = kernel_values.part(
            {**dict.fromkeys(SWITCHES, "0"), SWAPPINESS: "10"},
            {**dict.fromkeys(SWITCHES, "1"), SWAPPINESS: "60"},
        )
    else:
        values = kernel_values.part(
            {governor(cpu): "performance" for cpu in SWITCHES.values()},
            dict.fromkeys(SWITCHES, "0"),
            back=dict.fromkeys(SWITCHES, "1"),
        )
    return Transaction(
        "T1",
        (
            values,
            kubelet.part(
                "kubelet.service", invalid_state=[STATE], health=("127.0.0.1", port), stable_seconds=1
            ),
        ),
    )


@pytest.mark.variants(1)
@pytest.mark.parametrize("event", shortened(FAULTS, ("apply kernel_values", "prove kubelet again")))
@pytest.mark.parametrize("going", [True, False], ids=["going", "coming"])
def test_killed_unit_brings_every_cpu_back(node: Sandbox, port: int, event: str, going: bool) -> None:
    before = "1" if going else "0"
    for path in SWITCHES:
        node.path(path).write_text(f"{before}\n")
    node.path(RECORD).parent.mkdir(exist_ok=True)
    node.path(RECORD).write_text("# as it was\n")
    when(node, event, KILL)
    result = finished(node, change(port, going=going))
    assert result.outcome == "rolled-back", result
    assert {text(node, path) for path in SWITCHES} == {before}
    assert {text(node, governor(cpu)) for cpu in CPUS} == {"schedutil"}
    assert text(node, SWAPPINESS) == "60"
    assert text(node, RECORD) == "# as it was"


def test_values_of_onlined_cpus_are_recorded_once_present(node: Sandbox, port: int) -> None:
    for path in SWITCHES:
        node.path(path).write_text("0\n")
    assert finished(node, change(port, going=False)).outcome == "applied"
    assert switches(node) == "11111111"
    assert text(node, RECORD).splitlines()[1:] == [
        f"{governor(cpu)}\tschedutil\tperformance" for cpu in SWITCHES.values()
    ]
