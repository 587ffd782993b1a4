"""The userland of a host as its files and its package database show it."""

import subprocess
from pathlib import Path

import pytest

from numaforge.machine.snapshot import catalogue
from numaforge.machine.snapshot.capture import from_root, parse_output, script
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import Containerd, HostProcess, InstalledPackage, Userland
from numaforge.machine.topology.read import read_topology
from numaforge.machine.topology.userland import package_kind, read_userland
from tests.fixtures.tables import cases
from tests.fixtures.trees import write, write_tree

CONTAINERD = Path(__file__).parents[3] / "fixtures/containerd"
# What containerd prints, shortened: 1.6.20 imports a fragment of NVIDIA's toolkit.
DUMP, DUMP_2 = ((CONTAINERD / name).read_text(encoding="utf-8") for name in ("1.6.toml", "2.toml"))


def userland(files: dict[str, str] | None = None, **commands: str) -> Userland:
    said = {name.replace("_", " "): text for name, text in commands.items()}
    read = read_userland(Snapshot(files or {}, commands={"host daemons": "", "present": "", **said}))
    assert read is not None
    return read


def test_snapshot_without_userland_capture_has_no_userland():
    assert read_userland(Snapshot({})) is None


def test_containerd_1_configuration_is_read():
    said = {"containerd --version": "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20"}
    files = "/etc/containerd/config.toml:version = 2\netc/containerd/conf.d/99-nvidia.toml:  version = 2\n"
    commands = {**said, "containerd config dump": DUMP, "containerd files": files}
    assert userland(**commands).containerd == Containerd(
        version="1.6.20",
        config_version=2,
        imports=("/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml"),
        versions={"/etc/containerd/config.toml": 2, "/etc/containerd/conf.d/99-nvidia.toml": 2},
        runtimes={"nvidia": True},
        default_runtime="nvidia",
        nri=False,
        sandbox_image="registry.k8s.io/pause:3.6",
    )


def test_containerd_2_configuration_is_read():
    assert userland(**{"containerd config dump": DUMP_2}).containerd == Containerd(
        config_version=3,
        imports=("/etc/containerd/conf.d/*.toml",),
        runtimes={"runc": False},
        default_runtime="runc",
        cdi=True,
        cdi_folders=("/etc/cdi", "/var/run/cdi"),
        nri=True,
        sandbox_image="registry.k8s.io/pause:3.10.1",
    )


@pytest.mark.parametrize("answer", ["", "not toml at all", "[plugins"], ids=["nothing", "no TOML", "cut off"])
def test_unreadable_containerd_config_is_unknown(answer):
    assert userland(**{"containerd config dump": answer}).containerd in (None, Containerd())


def test_registries_and_passwords_stay_on_the_host(tmp_path):
    """The lines that the script takes are still TOML, and mean the same."""
    kept = subprocess.run(
        ["sh", "-c", 'grep -E "$1" | grep -v "\\.registry"', "sh", catalogue.CONTAINERD_KEYS],
        input=DUMP,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [word for word in ("hunter2", "cm9ib", "robot", "registry.internal") if word in kept] == []
    whole, reduced = (userland(**{"containerd config dump": text}).containerd for text in (DUMP, kept))
    assert reduced == whole


def test_packages_are_listed_with_their_holds():
    rows = (
        "hold installed kubelet 1.36.3-1.1\ninstall installed linux-image-6.1.0-30-amd64 6.1.124-1\n"
        "deinstall config-files linux-image-6.1.0-29-amd64 6.1.123-1\n"
        "install installed libnvidia-container1 1.18.0-1\n"
    )
    read = userland(packages=rows, present="/usr/bin/apt-mark")
    assert read.packages == (
        InstalledPackage("kubelet", "1.36.3-1.1", "kubelet", held=True),
        InstalledPackage("libnvidia-container1", "1.18.0-1", "containerd", held=False),
        InstalledPackage("linux-image-6.1.0-30-amd64", "6.1.124-1", "kernel", held=False),
    )


@cases(
    "path, text",
    {
        "dnf 4": ("/etc/dnf/plugins/versionlock.list", "# Added locks\nkernel-core-0:5.14.0-503.el9.*\n"),
        "a pattern for dnf 4": ("/etc/dnf/plugins/versionlock.list", "kernel-core\n"),
        "dnf 5": ("/etc/dnf/versionlock.toml", '[[packages]]\nname = "kernel-core"\n'),
        "zypper": ("/etc/zypp/locks", "type: package\nsolvable_name: kernel-core\n"),
    },
)
def test_package_locks_of_other_package_managers_are_read(path, text):
    rows = "install installed kernel-core 5.14.0\ninstall installed kubelet 1.36.3\n"
    held = {
        p.name: p.held for p in userland({path: text}, packages=rows, present="/usr/bin/dnf").packages or ()
    }
    assert held == {"kernel-core": True, "kubelet": False}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvidia-driver-580-server-open", "driver"),
        ("nvidia-container-toolkit", "containerd"),
        ("linux-modules-nvidia-580-open-6.8.0-79-generic", "kernel"),
        ("kernel-core", "kernel"),
        ("kernelshark", None),
        ("containerd.io", "containerd"),
        ("kubectl", "kubelet"),
    ],
)
def test_package_belongs_to_one_kind(name, kind):
    assert package_kind(name) == kind


@cases(
    "text, upgrades, skipped",
    {
        "on": ('APT::Periodic::Unattended-Upgrade "1";\n', True, ()),
        "off": ('APT::Periodic::Unattended-Upgrade "0";\n', False, ()),
        "a list with a comment": (
            (
                'APT::Periodic::Unattended-Upgrade "1";\nUnattended-Upgrade::Package-Blacklist {\n'
                '  // "linux-";\n  "nvidia-";\n};\n'
            ),
            True,
            ("nvidia-",),
        ),
    },
)
def test_unattended_upgrades_are_reported(text, upgrades, skipped):
    read = userland({"/etc/apt/apt.conf.d/20auto-upgrades": text}, present="/usr/bin/apt-mark")
    assert (read.upgrades, read.upgrades_skip) == (upgrades, skipped)


def test_limits_and_units_of_daemons_are_read():
    files = {
        "/proc/7/comm": "containerd\n",
        "/proc/7/cgroup": "0::/system.slice/containerd.service\n",
        "/proc/7/limits": "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  8388608  8388608  bytes\n"
        "Max open files  1024  524288  files\n",
    }
    said = {"host daemons": "7 8", "units": "containerd.service 7 /system.slice/containerd.service\n"}
    processes = userland(files, **said).processes
    assert processes == (HostProcess("containerd", "containerd.service", False, 1024, 8388608),)


@cases(
    "cgroup, process",
    {
        "service": ("/system.slice/chrony.service", HostProcess("chronyd", "chrony.service")),
        "a-pod": ("/kubepods/pod1/1", HostProcess("chronyd", in_pod=True)),
        "beside-k3s": ("/system.slice/k3s.service", HostProcess("chronyd", "k3s.service")),
        "a-login-without-a-session": ("/system.slice/ssh.service", None),
        "a-user's-shell": ("/user.slice/user-7.slice/session-1.scope", None),
        "a-user's-unit": ("/user.slice/user-7.slice/user@7.service/chrony.service", None),
        "a-container's-unit": ("/lxc.payload.a/system.slice/chrony.service", None),
        "a-pod-of-kind": ("/system.slice/docker-1.scope/kubepods/pod1/1", None),
    },
)
def test_daemon_is_a_system_service_or_in_a_pod(cgroup, process):
    files = {"/proc/7/comm": "chronyd\n", "/proc/7/cgroup": f"0::{cgroup}\n"}
    units = (
        "chrony.service 7 /system.slice/chrony.service\n"
        "k3s.service 5 /system.slice/k3s.service\n"
        "ssh.service 4 /system.slice/ssh.service\n"
        "session-1.scope 0 /user.slice/user-7.slice/session-1.scope\n"
        "user@7.service 6 /user.slice/user-7.slice/user@7.service\n"
    )
    processes = userland(files, **{"host daemons": "7", "units": units}).processes
    assert processes == ((process,) if process else ())


def test_tuned_profile_is_read_with_its_includes():
    files = {
        catalogue.TUNED_PROFILE: "mine\n",
        "/etc/tuned/mine/tuned.conf": "[main]\ninclude=parent\n[sysctl]\nvm.swappiness = 1\n",
        "/usr/lib/tuned/parent/tuned.conf": "[sysctl]\nvm.swappiness = 10\n[cpu]\ngovernor=performance\n",
    }
    tuned = userland(files).tuned
    assert tuned == {"cpu.governor": "performance", "main.include": "parent", "sysctl.vm.swappiness": "1"}


def test_sysctl_files_are_in_precedence_order():
    files = {
        "/usr/lib/sysctl.d/99-a.conf": "vm.swappiness = 2\n",
        "/etc/sysctl.d/10-b.conf": "# a comment\n-net/ipv4/conf/eth0.1/rp_filter = 1\n",
        "/usr/lib/sysctl.d/10-b.conf": "vm.swappiness = 3\n",
    }
    assert userland(files).sysctl_files == {
        "/etc/sysctl.d/10-b.conf": {"net.ipv4.conf.eth0/1.rp_filter": "1"},
        "/usr/lib/sysctl.d/99-a.conf": {"vm.swappiness": "2"},
    }


def test_script_and_folder_reader_find_the_same(tmp_path):
    root = write_tree(tmp_path)
    write(root, catalogue.TUNED_PROFILE, "mine\n")
    write(root, "/etc/tuned/mine/tuned.conf", "[main]\ninclude=parent, mine\n")
    write(root, "/usr/lib/tuned/parent/tuned.conf", "[sysctl]\nvm.swappiness = 10\n")
    write(root, "/run/systemd/generator/dev-disk-by\\x2duuid-1.swap", "[Swap]\n")
    write(root, "/proc/70/comm", "containerd\n")
    write(root, "/proc/70/cgroup", "0::/system.slice/containerd.service\n")
    write(root, "/proc/70/limits", "Max open files  1024  524288  files\n")
    taken = from_root(Path(root))
    told = subprocess.run(
        ["dash", "-s"], input=script(str(root)), capture_output=True, text=True, check=True
    ).stdout
    assert read_topology(parse_output(told)).userland == read_topology(taken).userland
    read = read_userland(taken)
    assert read.swap_units == ("dev-disk-by\\x2duuid-1.swap",)
    assert read.tuned["sysctl.vm.swappiness"] == "10"


REGISTRY = "/var/lib/kubelet/plugins_registry"
POD_LOG = "/var/log/pods/nvidia-network-operator_rdma-shared-dp-ds-x7k2p_0f1e/rdma-shared-dp"


@cases(
    "present, drivers",
    {
        "the-folder-was-not-captured": ("", None),
        "no-socket": (REGISTRY, ()),
        "a-socket": (f"{REGISTRY} {REGISTRY}/dra.cpu-reg.sock", ("dra.cpu",)),
        "a-driver-that-is-replaced-has-two": (
            f"{REGISTRY} {REGISTRY}/gpu.nvidia.com-0f1e-4d-reg.sock {REGISTRY}/gpu.nvidia.com-reg.sock",
            ("gpu.nvidia.com",),
        ),
    },
)
def test_claim_drivers_are_found_by_their_sockets(present, drivers):
    assert userland(present=present).claim_drivers == drivers


@cases(
    "present, found",
    {
        "neither": ("", (False, False)),
        "the-plugin-has-a-pod-whether-or-not-it-runs": (POD_LOG, (True, False)),
        "the-cni-plugin-is-installed": ("/opt/cni/bin/rdma", (False, True)),
    },
)
def test_rdma_plugin_and_cni_are_found_by_their_files(present, found):
    read = userland(present=present)
    assert (read.rdma_plugin, read.rdma_cni) == found
