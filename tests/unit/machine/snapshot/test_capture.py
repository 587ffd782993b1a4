"""The capture script on the shells that hosts have, and what is read from its output."""

import os
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

from numaforge.lib.errors import SnapshotError
from numaforge.machine.snapshot.capture import from_local, from_root, parse_output, script
from numaforge.machine.topology.read import read_topology
from tests.fixtures.answers import answered
from tests.fixtures.captures import captured_by_nobody
from tests.fixtures.tables import cases
from tests.fixtures.trees import link, program, write, write_tree


@pytest.fixture(scope="module")
def read_from_folder(tmp_path_factory):
    """The folder of a machine, which nothing may change, and what the reader of folders reads there."""

    @cache
    def read(name):
        root = write_tree(tmp_path_factory.mktemp(name), name)
        return root, from_root(root)

    return read


@pytest.mark.parametrize("name", ["nvidia-dgx-h100", "lab-node", "laptop", "gb200-nvl72-tray", "mi300x-cpx"])
def test_script_and_folder_reader_capture_the_same(shell, name, read_from_folder):
    root, read = read_from_folder(name)
    finished = shell(script(str(root)))
    assert finished.stderr == ""
    assert parse_output(finished.stdout) == read


def test_root_with_a_space_and_a_quote_in_its_name_is_captured(shell, tmp_path):
    root = tmp_path / "it's a root"
    write_tree(root)
    assert parse_output(shell(script(str(root))).stdout) == from_root(root)


@pytest.mark.parametrize(
    ("told", "product", "firmware"),
    [
        (("NVIDIA", "DGXH100", "1.6.7"), "NVIDIA DGXH100", "1.6.7"),
        (("Supermicro", "Super Server", "2.1"), "Supermicro Super Server", "2.1"),
        (("To Be Filled By O.E.M.", "To Be Filled By O.E.M.", "P1.0"), None, "P1.0"),
        (("ASUS", "System Product Name", ""), None, None),
        (("QEMU", "QEMU", "0.0.0"), "QEMU", "0.0.0"),
        (None, None, None),
    ],
    ids=["told", "server", "never-filled-in", "a-board-without-a-name", "both-alike", "no-DMI"],
)
def test_vendor_name_is_captured_and_serial_number_is_not(shell, tmp_path, told, product, firmware):
    write_tree(tmp_path)
    folder = "/sys/devices/virtual/dmi/id"
    for name, text in zip(("sys_vendor", "product_name", "bios_version"), told or (), strict=False):
        write(tmp_path, f"{folder}/{name}", f"{text}\n")
    if told:
        write(tmp_path, f"{folder}/product_serial", "X123\n")
        link(tmp_path, "/sys/class/dmi/id", "../../devices/virtual/dmi/id")
    captured = parse_output(shell(script(str(tmp_path))).stdout)
    assert captured == from_root(tmp_path)
    assert "X123" not in captured.to_json()
    machine = read_topology(captured)
    assert (machine.product, machine.firmware) == (product, firmware)


@pytest.fixture(scope="module")
def with_unreadable_files(tmp_path_factory):
    """The folder of a machine of which two files can be opened and not read, which nothing may change."""
    root = write_tree(tmp_path_factory.mktemp("unreadable"), "nvidia-dgx-h100")
    # As for the speed of a port without a link.
    link(root, "/sys/devices/pci0000:15/0000:15:01.0/speed", "/proc/self/mem")
    function = root / "sys/bus/pci/devices/0000:1b:00.0"
    (function / "current_link_speed").unlink()
    (function / "current_link_speed").symlink_to("/proc/self/mem")
    return root


def test_file_with_a_failing_read_is_left_out_and_capture_goes_on(shell, with_unreadable_files):
    captured = parse_output(shell(script(str(with_unreadable_files))).stdout)
    assert "/sys/bus/pci/devices/0000:1b:00.0/current_link_speed" not in captured.files
    assert captured.files["/sys/bus/pci/devices/0000:df:00.0/class"] == "0x030200"


def test_vanished_file_affects_no_other_file(shell, tmp_path):
    write_tree(tmp_path / "root")
    gone = write(tmp_path, "/root/etc/os-release", "NAME=here\n")
    path = program(tmp_path / "bin", "wc", f'rm -f {gone}\nPATH=${{PATH#*:}} exec wc "$@"')
    captured = parse_output(shell(script(str(tmp_path / "root")), {"PATH_FIRST": path}).stdout)
    # busybox has a wc of its own, which takes nothing away.
    assert ("/etc/os-release" in captured.files) == gone.exists()
    assert "/proc/cmdline" in captured.files


def test_cpulist_ending_with_a_nul_is_read(shell, tmp_path):
    write_tree(tmp_path)
    write(tmp_path, "/sys/devices/system/cpu/online", "0-15\n\0")
    captured = parse_output(shell(script(str(tmp_path))).stdout)
    assert captured.files["/sys/devices/system/cpu/online"] == "0-15"
    assert captured == from_root(tmp_path)


@cases(
    "text",
    {
        "lines-that-look-like-a-section": (
            "end\nt /etc/shadow\n 41\nsys/devices/system/cpu/online:0-999\nkey: \u00fc\n".encode()
        ),
        "odd-bytes": b"a\r\nb\x0bc\x85d\xff\n\x00\nN\n numaforge-preflight\n\n\xe2\x80\xa8end",
        "no-final-newline": b"kind: KubeletConfiguration",
    },
)
def test_text_is_kept_exactly(shell, tmp_path, text):
    write_tree(tmp_path)
    (tmp_path / "var/lib/kubelet/config.yaml").write_bytes(text)
    captured = parse_output(shell(script(str(tmp_path))).stdout)
    assert captured.files["/var/lib/kubelet/config.yaml"] == text.decode("utf-8", "replace")
    assert captured.files["/sys/devices/system/cpu/online"] == "0-15"


def test_drop_ins_are_found_at_any_depth_including_hidden_files(shell, tmp_path):
    write_tree(tmp_path)
    folder = "/etc/kubernetes/kubelet.conf.d"
    write(tmp_path, "/etc/default/kubelet", f"KUBELET_EXTRA_ARGS=--config-dir={folder}\n")
    wanted = {
        f"{folder}/{name}" for name in ("10-a.conf", ".b.conf", "..c.conf", "deep/er/d.conf", "e f.conf")
    }
    for path in (*wanted, f"{folder}/g.conf.bak", f"{folder}/conf"):
        write(tmp_path, path, "a: 1\n")
    link(tmp_path, f"{folder}/deep/back", "..")
    captured = parse_output(shell(script(str(tmp_path))).stdout)
    found = {path for path in captured.files if path.startswith(folder) and "/back/" not in path}
    assert found == wanted


def test_cpuinfo_keeps_one_processor_where_sysfs_has_the_topology(shell, tmp_path):
    write_tree(tmp_path)
    stanzas = [f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\n\n" for cpu in range(16)]
    write(tmp_path, "/proc/cpuinfo", "".join(stanzas))
    assert parse_output(shell(script(str(tmp_path))).stdout).files["/proc/cpuinfo"] == stanzas[0]
    shutil.rmtree(tmp_path / "sys/devices/system/cpu/cpu0/topology")
    assert parse_output(shell(script(str(tmp_path))).stdout).files["/proc/cpuinfo"] == "".join(stanzas)


@pytest.mark.parametrize(
    "flags",
    [
        "--config /opt/kubelet.yaml --config-dir=/opt/kubelet.d --root-dir=/data/kubelet",
        "--config=/opt/kubelet.yaml --config_dir /opt/kubelet.d --root_dir=/data/kubelet",
    ],
    ids=["hyphens", "underscores"],
)
def test_files_named_by_kubelet_flags_are_captured(shell, tmp_path, flags):
    write_tree(tmp_path)
    write(tmp_path, "/etc/default/kubelet", f'KUBELET_EXTRA_ARGS="{flags}"\n')
    wanted = {
        "/opt/kubelet.yaml": "kind: KubeletConfiguration\n",
        "/opt/kubelet.d/10-a.conf": "a: 1\n",
        "/opt/kubelet.d/deeper/20-b.conf": "b: 1\n",
        "/data/kubelet/cpu_manager_state": "{}",
    }
    for path, text in (wanted | {"/opt/kubelet.d/notes.txt": "not read by the kubelet\n"}).items():
        write(tmp_path, path, text)
    captured = parse_output(shell(script(str(tmp_path))).stdout)
    assert {path: captured.files.get(path) for path in wanted} == wanted
    assert "/opt/kubelet.d/notes.txt" not in captured.files
    assert captured == from_root(tmp_path)


def test_identifying_files_are_not_captured(tmp_path):
    write_tree(tmp_path, "nvidia-dgx-h100")
    device = next((tmp_path / "sys/class/infiniband").iterdir()).resolve()
    for name in ("node_guid", "ports/1/gids/0", "../../net/ibp24s0/address"):
        write(device, name, "fe80:0000:0000:0000\n")
    write(tmp_path, "/sys/devices/system/cpu/cpu0/topology/ppin", "0x1234\n")
    write(tmp_path, "/proc/sys/net/ipv4/tcp_fastopen_key", "00000000-11111111-22222222-33333333\n")
    write(tmp_path, "/etc/kubernetes/kubelet.conf", "kind: Config\nclient-key-data: c2VjcmV0\n")
    captured = from_root(tmp_path)
    leaks = ("topology/ppin", "/address", "guid", "gids", "fastopen_key", "/etc/kubernetes/kubelet.conf")
    assert [path for path in captured.files if any(leak in path for leak in leaks)] == []


def test_kubeconfig_passed_as_kubelet_config_is_redacted(tmp_path):
    write_tree(tmp_path)
    write(
        tmp_path, "/var/lib/kubelet/config.yaml", "apiVersion: v1\nkind: Config\nclient-key-data: c2VjcmV0\n"
    )
    assert from_root(tmp_path).files["/var/lib/kubelet/config.yaml"] == "REDACTED\n"


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    outside = write(tmp_path, "/outside/secret", "secret")
    root = write_tree(tmp_path / "root")
    (root / "proc/cmdline").unlink()
    link(root, "/proc/cmdline", str(outside))
    write(root, "/etc/numaforge/unrelated", "")
    link(root, "/etc/numaforge/plan.json", "../../../outside/secret")
    captured = from_root(root)
    assert "/proc/cmdline" not in captured.files
    assert "/etc/numaforge/plan.json" not in captured.files


def test_absolute_link_resolves_inside_the_folder(tmp_path):
    root = write_tree(tmp_path)
    (root / "etc/os-release").unlink()
    link(root, "/etc/os-release", "/usr/lib/os-release")
    assert from_root(root).files["/etc/os-release"].startswith('ID="ubuntu"')


def test_link_loop_is_left_out(tmp_path):
    root = write_tree(tmp_path)
    (root / "proc/cmdline").unlink()
    link(root, "/proc/cmdline", "/proc/other")
    link(root, "/proc/other", "/proc/cmdline")
    assert "/proc/cmdline" not in from_root(root).files


def test_container_mounts_are_not_captured(tmp_path):
    write_tree(tmp_path)
    write(
        tmp_path,
        "/proc/mounts",
        "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
        "overlay /run/containerd/io.containerd/x overlay rw,lowerdir=/a 0 0\n"
        "tmpfs /var/lib/kubelet/pods/1/volumes/kubernetes.io~projected/token tmpfs rw 0 0\n",
    )
    assert from_root(tmp_path).files["/proc/mounts"] == "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"


def test_local_machine_is_captured_as_a_live_host(shell):
    snapshot = parse_output(shell(script()).stdout)
    assert read_topology(snapshot).architecture == os.uname().machine
    assert snapshot.commands["id -u"] == str(os.getuid())
    assert len(read_topology(snapshot).online) == os.sysconf("SC_NPROCESSORS_ONLN")
    assert read_topology(from_local()).online == read_topology(snapshot).online


SMI = (Path(__file__).parents[3] / "fixtures/nvidia_smi/processes.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("status", [0, 15], ids=["well", "one-gpu-does-not-answer"])
def test_nvidia_smi_output_is_reduced_to_the_fields_in_use(shell, live, tmp_path, status):
    xml = SMI.replace("PID", str(os.getpid()))
    path = program(tmp_path, "nvidia-smi", f"cat << 'END'\n{xml}END\nexit {status}")
    finished = shell(live(), {"PATH_FIRST": path})
    # Neither command lines nor the hundreds of clocks leave the host.
    assert b"key k".hex(" ") not in finished.stdout
    snapshot = parse_output(finished.stdout)
    assert snapshot.nvidia_smi == (
        "<nvidia_smi_log>\n<gpu id='0'>\n<uuid>GPU-1</uuid>\n"
        f"<processes>\n<process_info>\n<pid>{os.getpid()}</pid>\n"
        "</process_info>\n</processes>\n</gpu>\n<gpu id='1'>\n<uuid>GPU-2</uuid>\n</gpu>\n</nvidia_smi_log>"
    )
    assert snapshot.files[f"/proc/{os.getpid()}/comm"] == Path("/proc/self/comm").read_text()


UID, OTHER, STATIC = (
    "0f5a7d1e-1111-4222-8333-444455556666",
    "11111111-2222-4333-8444-555555555555",
    "0123456789abcdef0123456789abcdef",
)


def checkpoint(*uids):
    entries = [
        f'{{"PodUID":"{uid}","ContainerName":"main","ResourceName":"nvidia.com/gpu","DeviceIDs":{{"0":["GPU-{n}"]}},'
        f'"AllocResp":"Cmgo_{n}+/="}}'
        for n, uid in enumerate(uids)
    ]
    return f'{{"Data":{{"PodDeviceEntries":[{",".join(entries)}],"RegisteredDevices":{{}}}},"Checksum":1}}'


def test_only_names_of_pods_with_devices_are_captured(shell, tmp_path):
    root = write_tree(tmp_path)
    write(root, "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", checkpoint(UID, STATIC))
    for folder in (
        f"team-a_train-0_{UID}",
        f"kube-system_etcd-node_{STATIC}",
        f"team-b_web_{OTHER}",
        "a",
        "0",
    ):
        write(root, f"/var/log/pods/{folder}/main/0.log", "")
    write(root, f"/var/lib/kubelet/pods/{UID}/etc-hosts", "")
    finished = shell(script(str(root)))
    assert b"Cmgo".hex(" ") not in finished.stdout
    captured = parse_output(finished.stdout)
    assert captured.commands["pods"].split() == [
        f"kube-system_etcd-node_{STATIC}",
        f"team-a_train-0_{UID}",
        UID,
    ]
    held = captured.files["/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"]
    assert UID in held
    assert captured == from_root(root)


def test_pods_of_gpu_processes_are_captured(shell, live, tmp_path):
    root = write_tree(tmp_path / "root")
    write(root, "/proc/4242/comm", "python3\n")
    group = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-1.scope"
    write(root, "/proc/4242/cgroup", f"0::/kubepods.slice/kubepods-burstable.slice/{group}\n")
    for folder in (f"team-a_train-0_{UID}", f"team-b_web_{OTHER}"):
        write(root, f"/var/log/pods/{folder}/main/0.log", "")
    path = program(tmp_path / "bin", "nvidia-smi", f"cat << 'END'\n{SMI.replace('PID', '4242')}END")
    # Programs are asked on live hosts only; this one has another root.
    elsewhere = live().replace('cd "${root:-/}"', f"cd {root}")
    captured = parse_output(shell(elsewhere, {"PATH_FIRST": path}).stdout)
    assert captured.commands["pods"] == f"team-a_train-0_{UID}"
    assert captured.files["/proc/4242/comm"] == "python3\n"


def test_devices_of_a_kubelet_with_another_root_are_found(shell, tmp_path):
    root = write_tree(tmp_path)
    write(root, "/etc/default/kubelet", 'KUBELET_EXTRA_ARGS="--root-dir=/data/kubelet"\n')
    write(root, "/data/kubelet/device-plugins/kubelet_internal_checkpoint", checkpoint(UID))
    write(root, f"/data/kubelet/pods/{UID}/etc-hosts", "")
    captured = parse_output(shell(script(str(root))).stdout)
    assert captured.commands["pods"] == UID
    assert "/data/kubelet/device-plugins/kubelet_internal_checkpoint" in captured.files
    assert captured == from_root(root)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", checkpoint(UID)),
        ("/var/lib/kubelet/cpu_manager_state", "{}"),
    ],
    ids=["a-checkpoint", "a-text"],
)
def test_unreadable_file_is_reported(path, text):
    with tempfile.TemporaryDirectory() as folder:
        root = write_tree(Path(folder))
        write(root, path, text).chmod(0)
        captured = captured_by_nobody(root)
    assert captured.unreadable == (path,)
    assert "pods" not in captured.commands


def test_program_ignoring_all_signals_does_not_hang_the_capture(shell, live, tmp_path):
    path = program(tmp_path, "nvidia-smi", "trap '' TERM INT HUP\nsleep 30 & echo $! > $PID_FILE\nwait")
    pid_file = tmp_path / "pid"
    hurried = live().replace("ask 60 nvidia-smi", "ask 1 nvidia-smi").replace("timeout -k 5", "timeout -k 1")
    started = time.monotonic()
    snapshot = parse_output(shell(hurried, {"PATH_FIRST": path, "PID_FILE": str(pid_file)}).stdout)
    assert snapshot.nvidia_smi is None
    assert time.monotonic() - started < 20
    subprocess.run(["kill", pid_file.read_text().strip()], check=False, capture_output=True)


def test_failing_program_gives_no_answer(shell, live, tmp_path):
    path = program(tmp_path, "nvidia-smi", "echo 'Failed to initialize NVML'; exit 9")
    assert parse_output(shell(live(), {"PATH_FIRST": path}).stdout).nvidia_smi is None


def test_kubelet_version_is_captured(shell, folder_of_root):
    path = program(folder_of_root, "kubelet", "echo 'Kubernetes v1.36.3'")
    snapshot = parse_output(shell(script().replace("/usr/bin /usr", f"{path} /usr", 1)).stdout)
    assert snapshot.commands["kubelet --version"] == "Kubernetes v1.36.3"


GOOD = ["sys/devices/system/cpu/online:0-1", "t /etc/os-release", " 49 44"]


@cases(
    "lines, message",
    {
        "half-a-byte": ([*GOOD[:2], " 49 4"], "not hex"),
        "foreign-line": (["Connection reset"], "does not print"),
        "broken-nvml-answer": (["c nvml", " 7b"], "something else than JSON"),
    },
)
def test_malformed_output_is_refused(lines, message):
    with pytest.raises(SnapshotError, match=message):
        parse_output(answered(**{"snapshot 1": lines}))


def test_login_banner_before_the_snapshot_is_ignored():
    good = answered(**{"snapshot 1": GOOD})
    assert parse_output(["Welcome to node 1", "", *good]) == parse_output("\n".join(good) + "\n")


def test_missing_folder_is_refused(tmp_path):
    with pytest.raises(SnapshotError, match="is not a folder"):
        from_root(tmp_path / "nowhere")
