"""Who holds a GPU: what control groups and the kubelet's checkpoint say."""

import json

import pytest

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.holders import (
    pods_on,
    read_device_holders,
    read_gpu_processes,
    read_holders_doubt,
    uuids_of,
)
from numaforge.machine.topology.model import DeviceHolder, Gpu, GpuProcess, MigDevice
from tests.fixtures.tables import cases

UID = "0f5a7d1e-1111-4222-8333-444455556666"
STATIC = "0123456789abcdef0123456789abcdef"
ROOT = "/var/lib/kubelet"
CHECKPOINT = f"{ROOT}/device-plugins/kubelet_internal_checkpoint"
GPU = Gpu("0000:1b:00.0", "10de", "2330", 0, uuid="GPU-0", pids=(7,), mig_devices=(MigDevice(1, 0, "MIG-a"),))
SYSTEMD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice"


UNITS = """\
kubelet.service 700 /system.slice/kubelet.service
systemd-networkd.service 400 /system.slice/systemd-networkd.service
dcgm.service 800 /system.slice/dcgm.service
nvsm.service 0 /system.slice/nvsm.service
session-3.scope 0 /user.slice/user-0.slice/session-3.scope
user@1000.service 900 /user.slice/user-1000.slice/user@1000.service
docker-1f.scope 0 /system.slice/docker-1f.scope
slurmstepd.scope 0 /system.slice/slurmstepd.scope
"""


def process(cgroup, pods="", units=UNITS):
    files = {"/proc/7/comm": "python3\n", "/proc/7/cgroup": cgroup}
    return read_gpu_processes(Snapshot(files, commands={"pods": pods, "units": units}), [GPU])[7]


@cases(
    "cgroup, pod",
    {
        "systemd": (f"0::/{SYSTEMD.format(UID.replace('-', '_'))}/cri-containerd-1.scope\n", UID),
        "cgroupfs": (f"0::/kubepods/besteffort/pod{UID}/1\n", UID),
        "a-static-pod": (f"0::/kubepods-pod{STATIC}.slice/crio-1.scope\n", STATIC),
        "version-1": (f"9:pids:/x\n8:memory:/kubepods/pod{UID}/1\n1:name=systemd:/y\n", UID),
        "nested": (f"0::/system.slice/kubelet.service/{SYSTEMD.format(UID.replace('-', '_'))}/1\n", UID),
    },
)
def test_process_in_a_pod_is_identified_by_its_cgroup(cgroup, pod):
    assert process(cgroup) == GpuProcess("python3", pod=pod)
    assert process(cgroup, f"team-a_train-0_{pod} {pod}") == GpuProcess("python3", pod="team-a/train-0")


@cases(
    "cgroup, unit",
    {
        "a-service": ("0::/system.slice/dcgm.service\n", "dcgm.service"),
        "a-session": ("0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"),
        "a-container-without-kubernetes": ("0::/system.slice/docker-1f.scope\n", "docker-1f.scope"),
        "a-job-of-slurm": ("0::/system.slice/slurmstepd.scope/job_1/step_0\n", "slurmstepd.scope"),
        "version-1": ("9:pids:/\n1:name=systemd:/system.slice/nvsm.service\n", "nvsm.service"),
        "a-container's-own-systemd": ("0::/lxc.payload.alice/system.slice/systemd-networkd.service\n", None),
        "systemd-in-a-container": (
            "0::/system.slice/docker-1f.scope/system.slice/dcgm.service\n",
            "docker-1f.scope",
        ),
        "a-user's-own-unit": (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/kubelet.service\n",
            "user@1000.service",
        ),
        "a-pod-of-kind": (
            f"0::/system.slice/docker-1f.scope/kubelet.slice/kubelet-kubepods.slice/pod{UID}/1\n",
            "docker-1f.scope",
        ),
        "a-pod-in-a-container": (f"0::/lxc.payload.alice/kubepods/pod{UID}/1\n", None),
        "none": ("0::/\n", None),
    },
)
def test_process_outside_pods_is_identified_by_its_unit(cgroup, unit):
    assert process(cgroup) == GpuProcess("python3", unit=unit)


def test_unit_of_a_process_is_unknown_without_systemds_answer():
    assert process("0::/system.slice/dcgm.service\n", units="") == GpuProcess("python3", unit=None)


def test_ended_process_is_left_out():
    assert read_gpu_processes(Snapshot({}), [GPU]) == {}


def checkpoint(*entries):
    named = ("PodUID", "ContainerName", "ResourceName", "DeviceIDs")
    data = {"PodDeviceEntries": [dict(zip(named, entry, strict=True)) for entry in entries]}
    return json.dumps({"Data": data, "Checksum": 1})


HELD = checkpoint(
    (UID, "main", "nvidia.com/mig-3g.40gb", {"0": ["MIG-a"]}),
    (UID, "main", "rdma/rail0", {"-1": ["3"]}),
    (STATIC, "monitor", "nvidia.com/gpu", {"0": ["GPU-0::1"]}),
)


def test_devices_name_their_pods():
    snapshot = Snapshot({CHECKPOINT: HELD}, commands={"pods": f"team-a_train-0_{UID}"})
    assert read_device_holders(snapshot, ROOT) == (
        DeviceHolder("GPU-0::1", "nvidia.com/gpu", STATIC, "monitor", present=False),
        DeviceHolder("MIG-a", "nvidia.com/mig-3g.40gb", "team-a/train-0", "main", present=True),
        DeviceHolder("3", "rdma/rail0", "team-a/train-0", "main", present=True),
    )


def test_pod_without_logs_counts_as_present():
    (_, held, _) = read_device_holders(Snapshot({CHECKPOINT: HELD}, commands={"pods": UID}), ROOT)
    assert (held.pod, held.present) == (UID, True)


@pytest.mark.parametrize(
    "text",
    [None, "", "not JSON", '{"Data": {"PodDeviceEntries": [{}]}}'],
    ids=["none", "empty", "torn", "foreign"],
)
def test_holders_are_unknown_without_a_checkpoint(text):
    files = {} if text is None else {CHECKPOINT: text}
    assert read_device_holders(Snapshot(files), ROOT) is None


ROW = ["team-a/train-0", "main", "nvidia.com/mig-3g.40gb", "MIG-a"]
SOCKET = f"{ROOT}/pod-resources/kubelet.sock"


def test_kubelet_answer_takes_precedence_over_its_checkpoint():
    snapshot = Snapshot({CHECKPOINT: HELD, SOCKET: json.dumps([ROW])})
    holder = DeviceHolder("MIG-a", "nvidia.com/mig-3g.40gb", "team-a/train-0", "main", present=True)
    assert read_device_holders(snapshot, ROOT) == (holder,)
    assert read_holders_doubt(snapshot, ROOT) is None


def test_kubelet_answer_without_devices_overrides_the_checkpoint():
    snapshot = Snapshot({CHECKPOINT: HELD, SOCKET: "[]"})
    assert (read_device_holders(snapshot, ROOT), read_holders_doubt(snapshot, ROOT)) == ((), None)


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a": []}', '["abcd"]', json.dumps([ROW[:3]]), json.dumps([[*ROW[:3], 7]])],
    ids=["empty", "torn", "a-mapping", "a-text", "too-short", "a-number"],
)
def test_malformed_kubelet_answer_falls_back_to_the_checkpoint(text):
    snapshot = Snapshot({CHECKPOINT: HELD, SOCKET: text}, commands={"pods": UID})
    assert len(read_device_holders(snapshot, ROOT) or ()) == 3
    assert read_holders_doubt(snapshot, ROOT) == "it was not asked"


def test_reason_for_a_missing_kubelet_answer_is_kept():
    snapshot = Snapshot({CHECKPOINT: HELD}, commands={"pod resources": "the host has no python3"})
    assert read_holders_doubt(snapshot, ROOT) == "the host has no python3"


def test_checkpoint_without_devices_gives_no_holders():
    assert read_device_holders(Snapshot({CHECKPOINT: checkpoint()}), ROOT) == ()


@cases(
    "pods, expected",
    {
        "shared-and-sliced": (f"team-a_train-0_{UID} mon_dcgm_{STATIC}", ("mon/dcgm", "team-a/train-0")),
        "a-pod-that-is-gone-holds-nothing": (f"team-a_train-0_{UID}", ("team-a/train-0",)),
    },
)
def test_pods_on_a_gpu_are_found_by_its_uuids(pods, expected):
    holders = read_device_holders(Snapshot({CHECKPOINT: HELD}, commands={"pods": pods}), ROOT)
    assert pods_on(holders, uuids_of(GPU)) == expected
