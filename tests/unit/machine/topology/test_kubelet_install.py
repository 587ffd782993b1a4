"""The kubelet of a host: which flags it runs with, and which files those name."""

import pytest

from numaforge.kubelet_minors.flags import flag_value
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.kubelet import read_kubelet
from tests.fixtures.machines import EXEC_START
from tests.fixtures.tables import cases
from tests.fixtures.trees import KUBEADM_DROP_IN, KUBEADM_FLAGS, UNIT

KUBEADM = {
    "/usr/lib/systemd/system/kubelet.service": UNIT,
    "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": KUBEADM_DROP_IN,
    "/var/lib/kubelet/kubeadm-flags.env": KUBEADM_FLAGS,
    "/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n",
}
FLAGS = (
    "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
    "--kubeconfig=/etc/kubernetes/kubelet.conf",
    "--config=/var/lib/kubelet/config.yaml",
    "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
)


def install(files, **commands):
    return read_kubelet(Snapshot(files=files, commands=commands))


def test_kubeadm_unit_gives_its_flags():
    kubelet = install(KUBEADM)
    assert kubelet.flags == FLAGS
    assert kubelet.exec_start == EXEC_START
    assert kubelet.config_text == "kind: KubeletConfiguration\n"
    assert not kubelet.running


DROP_IN = "/etc/systemd/system/kubelet.service.d/90-numaforge.conf"
FOLDER = "--config-dir=/etc/kubernetes/kubelet.conf.d"
ADDED = {
    "by a command of ours": (
        f"ExecStart=\nExecStart=/usr/bin/kubelet --old {FOLDER}\n",
        {},
        True,
        FLAGS,
        FOLDER,
    ),
    "by a variable": (f"ExecStartPre=/bin/sh a.sh KUBELET_EXTRA_ARGS {FOLDER}\n", {}, True, FLAGS, FOLDER),
    "by others since": (
        f"ExecStart=\nExecStart=/usr/bin/kubelet --old {FOLDER}\n",
        {"/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--config-dir=/etc/k.d\n"},
        False,
        FLAGS,
        "--config-dir=/etc/k.d",
    ),
}


@pytest.mark.parametrize(("ours", "others", "added", "flags", "folder"), ADDED.values(), ids=ADDED)
def test_unit_is_read_without_numaforges_drop_in(ours, others, added, flags, folder):
    kubelet = install({**KUBEADM, **others, DROP_IN: f"[Service]\n{ours}"})
    assert kubelet.exec_start == EXEC_START
    assert kubelet.config_dir_added is added
    assert kubelet.flags == (*flags, folder)
    assert kubelet.config_dir == folder.partition("=")[2]


OWN = {
    "/proc/700/comm": "kubelet\n",
    "/proc/700/cmdline": "/usr/bin/kubelet\0--config=/etc/k.yaml\0--v=2\0",
    "/proc/700/cgroup": "0::/system.slice/kubelet.service\n",
}
OWN_UNIT = "kubelet.service 700 /system.slice/kubelet.service\n"


def stranger(cgroup):
    return {
        "/proc/70/comm": "kubelet\n",
        "/proc/70/cmdline": "kubelet\0--config=/home/m/k.yaml\0",
        "/proc/70/cgroup": f"0::{cgroup}\n",
    }


STRANGERS = {
    "a-user's-unit-of-its-name": "/user.slice/user-7.slice/user@7.service/app.slice/kubelet.service",
    "in-a-pod": "/kubepods.slice/cri-1.scope",
    "of-kind": "/system.slice/docker-1.scope/kubelet.slice/kubelet.service",
    "in-LXD": "/lxc.payload.m/system.slice/kubelet.service",
    "in-LXD-as-RKE2's": "/lxc.payload.m/system.slice/rke2-agent.service",
    "a-user's-shell": "/user.slice/user-7.slice/session-1.scope",
}


def test_main_process_flags_override_the_unit_file():
    kubelet = install(KUBEADM | OWN, units=OWN_UNIT)
    assert kubelet.flags == ("--config=/etc/k.yaml", "--v=2")
    assert kubelet.config_file == "/etc/k.yaml"
    assert kubelet.running


@pytest.mark.parametrize("cgroup", STRANGERS.values(), ids=STRANGERS)
def test_foreign_process_named_kubelet_is_not_this_hosts_kubelet(cgroup):
    said = {"host daemons": "70 700", "units": OWN_UNIT}
    assert install(KUBEADM | stranger(cgroup) | OWN, **said).flags == ("--config=/etc/k.yaml", "--v=2")
    said = {"host daemons": "70", "units": "sshd.service 1 /system.slice/sshd.service\n"}
    assert install(KUBEADM | stranger(cgroup), **said).flags == FLAGS
    assert install(stranger(cgroup), **said) is None
    assert install(stranger(cgroup), **{"host daemons": "70"}) is None  # systemd did not answer


def test_rke2_kubelet_is_found_as_a_process_of_its_unit():
    said = {"host daemons": "70", "units": "rke2-agent.service 60 /system.slice/rke2-agent.service\n"}
    kubelet = install(stranger("/system.slice/rke2-agent.service"), **said)
    assert (kubelet.running, kubelet.distribution) == (True, "RKE2")
    assert kubelet.flags == ("--config=/home/m/k.yaml",)


@cases(
    "checkpoint, resources",
    {
        "those with devices": (
            '{"Data": {"RegisteredDevices": {"nvidia.com/gpu": ["GPU-0"], "rdma/hca": ["0", "1"]}}}',
            ("nvidia.com/gpu", "rdma/hca"),
        ),
        "none of a plugin that has gone": (
            '{"Data": {"RegisteredDevices": {"nvidia.com/gpu": [], "amd.com/gpu": null}}}',
            (),
        ),
        "no plugin": ('{"Data": {"PodDeviceEntries": null, "RegisteredDevices": null}}', ()),
        "no checkpoint": ("", None),
        "torn": ('{"Da', None),
        "foreign": ("[]", None),
    },
)
def test_device_checkpoint_names_the_resources_of_device_plugins(checkpoint, resources):
    files = {"/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": checkpoint}
    assert install(KUBEADM | files).plugin_resources == resources


def test_drop_in_in_etc_overrides_package_drop_in_of_same_name():
    path = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf"
    changed = KUBEADM | {path: "[Service]\nExecStart=\nExecStart=/opt/kubelet --v=4\n"}
    assert install(changed).flags == ("--v=4",)


@cases(
    "command, flags",
    {
        "by-its-name": ("/usr/bin/kubelet --v=2", ("--v=2",)),
        "by-another-name": ("/opt/kubelet-1.36 --v=2", ("--v=2",)),
        "through-a-wrapper": ("/usr/local/bin/kubenswrapper /usr/bin/kubelet --v=2", ("--v=2",)),
        "as-a-command-of-another": ("/usr/bin/hyperkube kubelet --v=2", ("--v=2",)),
        "a-value-is-no-program": (
            "/opt/kubelet-1.36 --root-dir /var/lib/kubelet",
            ("--root-dir", "/var/lib/kubelet"),
        ),
    },
)
def test_flags_are_the_words_after_the_program(command, flags):
    files = {"/etc/systemd/system/kubelet.service": f"[Service]\nExecStart={command}\n"}
    assert install(files).flags == flags


def test_environment_files_win_over_environment_and_quotes_are_read():
    unit = (
        '[Service]\nEnvironment=ARGS=--v=1 "MORE=--a b"\nEnvironmentFile=-/etc/default/kubelet\n'
        "ExecStart=/usr/bin/kubelet \\\n  $ARGS ${MORE}\n"
    )
    files = {"/etc/systemd/system/kubelet.service": unit, "/etc/default/kubelet": "# x\nARGS='--v=2 --w'\n"}
    assert install(files).flags == ("--v=2", "--w", "--a b")


def test_drop_ins_and_state_files_follow_the_flags():
    files = KUBEADM | {
        "/etc/default/kubelet": 'KUBELET_EXTRA_ARGS="--config-dir=/etc/k.d --root-dir /data"\n',
        "/etc/k.d/90-a.conf": "a: 1\n",
        "/etc/k.d.other/90-b.conf": "b: 1\n",
        "/data/cpu_manager_state": "{}",
    }
    kubelet = install(files)
    assert kubelet.drop_ins == {"/etc/k.d/90-a.conf": "a: 1\n"}
    assert kubelet.root_dir == "/data"
    assert kubelet.state_files == {"cpu_manager_state": "{}"}


def test_version_comes_from_the_kubelet_binary():
    assert install({}, **{"kubelet --version": "Kubernetes v1.33.5-eks-1234"}).version == "1.33.5"


def test_kubelet_that_was_not_asked_reports_its_missing_version():
    there = install({}, **{"kubelet binary": "1 2 3 /usr/bin/kubelet"})
    assert (there.version, there.problem) == (None, "/usr/bin/kubelet did not print its version")


def test_kubelet_writable_by_others_is_not_run_and_is_reported():
    there = install({}, **{"kubelet refused": "/home/m/kubelet"})
    assert there.version is None
    assert there.problem.startswith("/home/m/kubelet was not run: it, or a folder above it, is not root's")


def test_host_without_a_trace_of_a_kubelet_has_no_install():
    assert install({"/etc/os-release": "ID=debian\n"}) is None


@cases(
    "flags, value",
    {
        "with-an-equals-sign": (("--config=/a",), "/a"),
        "as-the-next-word": (("--config", "/a"), "/a"),
        "the-last-one-counts": (("--config=/a", "--config=/b"), "/b"),
        "other-flags-do-not-count": (("--config-dir=/a", "--kubeconfig=/b"), None),
        "without-a-value": (("--config",), None),
        "beside-a-flag-with-underscores": (("--config_dir=/b", "--config=/a"), "/a"),
        "a-value-that-looks-like-a-flag": (("--node-ip", "--config=/b", "--config=/a"), "/a"),
        "taken-as-another-flags-value": (("--v", "--config=/b"), None),
        "one-dash-is-a-shorthand": (("-config=/a",), None),
        "not-after-two-dashes": (("--", "--config=/a"), None),
        "beside-a-flag-that-is-unknown": (("--no-such-flag", "--config=/a"), "/a"),
    },
)
def test_flag_value_is_read(flags, value):
    assert flag_value(flags, "config") == value


# ---- distributions that run the kubelet their own way ----

AGENT = "k3s-agent.service 7 /system.slice/k3s-agent.service\n"
STOPPED = "k3s-agent.service 0 /system.slice/k3s-agent.service\n"  # pods run on in its control group
K3D = "docker-0a1b.scope 0 /system.slice/docker-0a1b.scope\n"
LOGINS = {
    "k3s": "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "RKE2": "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "MicroK8s": "/var/snap/microk8s/current/credentials/kubelet.config",
}


@pytest.mark.parametrize(
    ("files", "units", "present", "name", "login"),
    [
        *(pytest.param({}, "", path, name, path, id=f"{name}-by-its-login") for name, path in LOGINS.items()),
        pytest.param({}, AGENT, "", "k3s", None, id="by-its-unit-that-runs-wherever-its-data-are"),
        pytest.param({}, "", "/etc/systemd/system/k3s.service", "k3s", None, id="by-its-unit"),
        pytest.param(KUBEADM, AGENT, "", "k3s", None, id="what-runs-says-more-than-a-unit-that-is-left"),
        pytest.param(KUBEADM, STOPPED, LOGINS["k3s"], None, None, id="a-unit-says-more-than-what-is-left"),
        pytest.param(KUBEADM, K3D, "", None, None, id="one-in-a-container-is-not-the-hosts"),
        pytest.param(
            KUBEADM,
            "",
            "/etc/kubernetes/kubelet.conf",
            None,
            "/etc/kubernetes/kubelet.conf",
            id="kubeadm's-login",
        ),
    ],
)
def test_distribution_is_recognised_by_its_processes_and_files(files, units, present, name, login):
    commands = {"present": present, "units": units}
    kubelet = read_kubelet(Snapshot(files=files, commands=commands))
    assert (kubelet.distribution, kubelet.login) == (name, login)


DEFAULTS = "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf"


def test_running_k3s_gives_its_unit_folder_and_version():
    commands = {
        "present": LOGINS["k3s"],
        "units": AGENT,
        "kubelet --version": "k3s version v1.36.5+k3s1 (3d)",
    }
    kubelet = read_kubelet(Snapshot(files={**KUBEADM, DEFAULTS: "maxPods: 9"}, commands=commands))
    assert (kubelet.unit, kubelet.version, kubelet.running) == ("k3s-agent.service", "1.36.5", True)
    assert kubelet.flags == (f"--config-dir={DEFAULTS.rpartition('/')[0]}", f"--kubeconfig={LOGINS['k3s']}")
    assert kubelet.drop_ins == {DEFAULTS: "maxPods: 9"}


KUBELITE = "snap.microk8s.daemon-kubelite.service 7 /system.slice/snap.microk8s.daemon-kubelite.service\n"
ARGUMENTS, SNAP = "/var/snap/microk8s/current/args/kubelet", "/snap/microk8s/current/meta/snap.yaml"
FOLDER = "/var/snap/microk8s/common/etc/kubelet.conf.d"


@cases(
    "line, folder, ours",
    {
        "no-folder-of-drop-ins-yet": ("", None, False),
        "ours": (f"--config-dir={FOLDER}", FOLDER, True),
        "an-admins": ("--config-dir ${SNAP_DATA}/own", "/var/snap/microk8s/current/own", False),
        "a-comment": (f"# --config-dir={FOLDER}", None, False),
    },
)
def test_microk8s_flags_come_from_its_file_and_version_from_its_snap(line, folder, ours):
    text = f"""--root-dir=${{SNAP_COMMON}}/var/lib/kubelet
--eviction-hard="memory.available<100Mi,nodefs.available<1Gi"
{line}
"""
    files = {**KUBEADM, ARGUMENTS: text, SNAP: "name: microk8s\nversion: v1.36.5\n"}
    kubelet = read_kubelet(
        Snapshot(files=files, commands={"units": KUBELITE, "kubelet --version": "Kubernetes v1.31.0"})
    )
    assert (kubelet.distribution, kubelet.version) == ("MicroK8s", "1.36.5")
    assert kubelet.unit == "snap.microk8s.daemon-kubelite.service"
    assert kubelet.root_dir == "/var/snap/microk8s/common/var/lib/kubelet"
    assert "--eviction-hard=memory.available<100Mi,nodefs.available<1Gi" in kubelet.flags
    assert (kubelet.config_dir, kubelet.config_dir_added) == (folder, ours)
    assert (kubelet.arguments_file, kubelet.arguments_text) == (ARGUMENTS, text)
