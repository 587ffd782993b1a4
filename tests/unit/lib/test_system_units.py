"""Which units systemd is asked for by the path of a control group: the shell's and Python's way agree."""

import shutil
import subprocess

import pytest

from numaforge.lib import shell
from numaforge.lib.system_units import named_units, pod_path, read_groups, unit_of

LONGEST = "a" * 240

CASES = {
    "a-service": ("0::/system.slice/chrony.service", ["chrony.service"]),
    "version-1": ("4:pids:/x.service\n1:name=systemd:/system.slice/a.service", ["a.service"]),
    "below-a-unit": ("0::/system.slice/k3s.service/kubepods/pod1", ["k3s.service"]),
    "of-a-template": ("0::/system.slice/system-a.slice/a@b-c\\x2dd:1.service", ["a@b-c\\x2dd:1.service"]),
    "in-a-container": (
        "0::/system.slice/docker-1.scope/system.slice/sshd.service",
        ["docker-1.scope", "sshd.service"],
    ),
    "below-a-users-manager": (
        "0::/user.slice/user-7.slice/user@7.service/app.slice/kubelet.service",
        ["user@7.service"],
    ),
    "an-option": ("0::/--host=evil.service/-a.service", []),
    "a-pattern": ("0::/*.service/a?.service/[a].scope", []),
    "a-template-itself": ("0::/a@.service", []),
    "no-name": ("0::/.service/@a.service", []),
    "a-blank": ("0::/a b.service", []),
    "code": ("0::/$(id).service/`id`.service/a;b.service/a'b.service", []),
    "long": (f"0::/{LONGEST}.service", [f"{LONGEST}.service"]),
    "none": ("0::/", []),
}


@pytest.mark.parametrize("program", ["dash", "bash", "busybox sh"])
def test_shell_and_python_name_the_same_units(tmp_path, program):
    if shutil.which(program.split()[0]) is None:
        pytest.skip(f"{program} is not installed")
    script = shell.library("lib/kernel_files", "lib/units") + "units=\n"
    for number, (cgroup, _) in enumerate(CASES.values()):
        file = tmp_path / str(number)
        file.write_text(f"{cgroup}\n")
        script += f"units=; name_units {file}; set -f; printf '{number} %s\\n' $units; set +f\n"
    done = subprocess.run(
        program.split(), input=script, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    said = [line.split(" ", 1) for line in done.stdout.splitlines()]
    for number, (cgroup, units) in enumerate(CASES.values()):
        named = [unit for place, unit in said if int(place) == number and unit]
        assert (named, named_units([f"{cgroup}\n"])) == (units, units), cgroup


ANSWER = """\
Id=k3s.service
ControlGroup=/system.slice/k3s.service

ControlGroup=
Id=stopped.service

Id=a.service
ControlGroup=/system.slice/a.service
"""
GROUPS = {"k3s.service": "/system.slice/k3s.service", "a.service": "/system.slice/a.service"}


def test_units_without_a_control_group_have_no_processes():
    assert read_groups(ANSWER) == GROUPS


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("/system.slice/a.service", "a.service"),
        ("/system.slice/a.service/below", "a.service"),
        ("/system.slice/a.service.d", ""),
        ("/lxc.payload.x/system.slice/a.service", ""),
        ("/", ""),
    ],
)
def test_process_belongs_to_the_unit_of_its_control_group(cgroup, unit):
    assert unit_of(f"0::{cgroup}\n", GROUPS) == unit


@pytest.mark.parametrize(
    ("cgroup", "is_pod"),
    [
        ("/kubepods/pod1/1", True),
        ("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice/1.scope", True),
        ("/system.slice/k3s.service/kubepods/pod1", True),
        ("/system.slice/rke2-agent.service/kubepods/pod1", False),  # systemd does not know that unit here
        ("/system.slice/a.service/kubepods/pod1", False),
        ("/lxc.payload.x/kubepods/pod1", False),
        ("/system.slice/docker-1.scope/kubepods/pod1", False),
        ("/user.slice/user-7.slice/user@7.service/kubepods.slice/1.scope", False),
    ],
)
def test_host_pods_are_found_below_slices_or_their_runtimes_unit(cgroup, is_pod):
    assert pod_path(f"0::{cgroup}\n", GROUPS) == (cgroup if is_pod else "")
