"""NVIDIA's software in a snapshot: files that are there, daemons, and versions that no file tells."""

import os
import stat
import subprocess
from dataclasses import replace

import pytest

from numaforge.machine.snapshot.capture import from_root, parse_output, script
from numaforge.machine.snapshot.redaction import checksum
from numaforge.machine.topology.model import GpuProcess, NvidiaInstall
from numaforge.machine.topology.read import read_topology
from tests.fixtures.trees import link, write, write_tree

SAID = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs@builder)\n"
    "GCC version:  gcc version 13.3.0\n"
)
POD = "12345678-9abc-4def-8123-456789abcdef"
SMI = "<nvidia_smi_log>\n<driver_version>580.95.05</driver_version>\n</nvidia_smi_log>"


@pytest.fixture
def host(tmp_path):
    """Write the tree of a host with NVIDIA's driver, its daemons and a list of IMEX nodes."""
    root = write_tree(tmp_path / "root")
    write(root, "/proc/driver/nvidia/version", SAID)
    write(root, "/sys/module/nvidia/version", "580.95.05\n")
    write(root, "/sys/module/ib_umad/initstate", "live\n")
    write(root, "/etc/modprobe.d/numaforge.conf", "# ours\nblacklist nouveau\n")
    write(root, "/etc/nvidia-imex/nodes_config.cfg", "# the rack\n10.0.0.1\n\n  10.0.0.2")
    write(
        root, "/etc/nvidia-imex/config.cfg", "SERVER_PORT=50000\nIMEX_CMD_ENABLED = 0\nIMEX_CMD_ENABLED=1\n"
    )
    write(root, "/usr/bin/nvidia-imex", "")
    write(root, "/etc/cdi/nvidia.yaml", "cdiVersion: 0.7.0\n")
    write(root, "/dev/null", "")
    write(root, "/dev/nvidia-caps-imex-channels/channel0", "")
    link(root, "/dev/char/1:3", "../null")
    link(root, "/dev/char/195:0", "../nvidia0")
    library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so"
    write(root, f"{library}.580.95.05", "")
    link(root, f"{library}.1", "libnvidia-ml.so.580.95.05")
    link(root, "/etc/systemd/system/multi-user.target.wants/nvidia-imex.service", "/usr/lib/x.service")
    for pid, name, group in (
        (101, "nv-fabricmanage", "/system.slice/nvidia-fabricmanager.service"),
        (102, "nvidia-imex", f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-1.scope"),
        (103, "sshd", "/system.slice/ssh.service"),
    ):
        write(root, f"/proc/{pid}/comm", f"{name}\n")
        write(root, f"/proc/{pid}/cgroup", f"0::{group}\n")
    return root


def test_script_and_folder_reader_agree(shell, host):
    finished = shell(script(str(host)))
    assert finished.stderr == ""
    assert parse_output(finished.stdout) == from_root(host)


def test_installed_and_running_nvidia_software_is_read(host):
    assert read_topology(from_root(host)).nvidia_install == NvidiaInstall(
        loaded="580.95.05",
        open_module=True,
        library="580.95.05",
        kernel_modules=("ib_umad", "nvidia"),
        daemons=(
            GpuProcess("nv-fabricmanage"),  # a folder has no systemd that says its unit
            GpuProcess("nvidia-imex", pod=POD),
        ),
        nouveau_kept_out=True,
        char_links=True,
        cdi_specs=("/etc/cdi/nvidia.yaml",),
        compute_domains=False,
        gpu_claims=False,
        imex_service="enabled",
        imex_nodes=2,
        imex_channel=True,
        gpu_memory_mode_next="",
        imex_list=checksum(["10.0.0.1", "10.0.0.2"]),
        imex_commands=True,
    )


def test_missing_imex_channel_differs_from_uncaptured_devices(host):
    (host / "dev/nvidia-caps-imex-channels/channel0").unlink()
    install = read_topology(from_root(host)).nvidia_install
    assert install.imex_channel is False
    (host / "dev/null").unlink()
    install = read_topology(from_root(host)).nvidia_install
    assert install.imex_channel is None


def test_addresses_and_cdi_specs_stay_on_the_host(host):
    text = from_root(host).to_json()
    assert "10.0.0.1" not in text
    assert "50000" not in text
    assert "cdiVersion" not in text
    assert "sshd" not in text


def test_host_without_nvidia_reports_no_nvidia_software(shell, tmp_path):
    root = write_tree(tmp_path)
    write(root, "/etc/modprobe.d/local.conf", "options loop max_loop=8\n")
    captured = parse_output(shell(script(str(root))).stdout)
    assert read_topology(captured).nvidia_install is None
    assert "/etc/modprobe.d/local.conf" not in captured.files


def programs(folder, **bodies):
    """Write programs that a host may have, and give their folder."""
    for name, body in bodies.items():
        file = write(folder, name.replace("_", "-"), f"#!/bin/sh\n{body}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(folder)


NVIDIA_SMI = f"cat << 'END'\n{SMI}\nEND"


def install_of(snapshot):
    files = {**snapshot.files, "/proc/driver/nvidia/version": SAID}
    return read_topology(replace(snapshot, files=files)).nvidia_install


def test_dpkg_is_queried_for_packages_that_must_match_the_driver(shell, tmp_path):
    # It exits with 1 where no package has a name of one of the patterns.
    asked = (
        "echo 'install installed nvidia-fabricmanager-580 580.95.05-0ubuntu1'\n"
        "echo 'hold installed nvidia-driver-580 580.95.05-0ubuntu1'\n"
        "echo 'deinstall config-files nvidia-imex 570.1-1'; exit 1"
    )
    path = programs(tmp_path, nvidia_smi=NVIDIA_SMI, dpkg_query=asked)
    snapshot = parse_output(shell(script(), {"PATH_FIRST": path}).stdout)
    assert install_of(snapshot).packages == {"nvidia-fabricmanager-580": "580.95.05"}


def test_rpm_is_queried_without_dpkg(live, tmp_path):
    # Not under busybox, which takes its own rpm and modinfo, of another kind, before those of the host.
    path = programs(
        tmp_path,
        nvidia_smi=NVIDIA_SMI,
        modinfo="echo 580.105.08",
        rpm='case " $* " in *" nvidia-* "*) echo "install installed nvidia-imex 580.95.05" ;; esac',
    )
    without_dpkg = live().replace("command -v dpkg-query", "command -v no-dpkg-query")
    finished = subprocess.run(
        ["dash", "-s"],
        input=without_dpkg,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{path}:{os.environ['PATH']}"},
    )
    install = install_of(parse_output(finished.stdout))
    assert (install.packages, install.on_disk) == ({"nvidia-imex": "580.95.05"}, "580.105.08")


def test_kernel_module_is_not_queried_when_the_driver_does_not_answer(shell):
    assert "modinfo nvidia" not in parse_output(shell(script()).stdout).commands
