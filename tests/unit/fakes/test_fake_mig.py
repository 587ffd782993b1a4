"""The life of MIG on the fake GPUs, through the real pynvml: modes, instances, MIG devices, privileges."""

import pytest

from tests.fakes.nvml.gpus import FakeGpus, Instance, gpu_text

ADDRESS = "0000:1b:00.0"
PROCESS = "process 4711 compute 1048576"


@pytest.fixture
def gpus(tmp_path):
    def make(model="h100-80gb", *lines, mig="enabled", flags=()):
        return FakeGpus(tmp_path, gpu_text(model, ADDRESS, *lines, mig=mig), *flags)

    return make


SET_MODE = "answer([nvmlDeviceSetMigMode(gpu, {wanted}), *nvmlDeviceGetMigMode(gpu)])"
SUCCESS, RESET_REQUIRED, IN_USE, ARGUMENT_VERSION_MISMATCH = 0, 16, 19, 25


@pytest.mark.parametrize(
    ("model", "lines", "mig", "wanted", "answered"),
    [
        pytest.param("a100-40gb", [], "disabled", 1, [RESET_REQUIRED, 0, 1], id="Ampere-waits-for-a-reset"),
        pytest.param(
            "a30-24gb", [], "enabled", 0, [RESET_REQUIRED, 1, 0], id="Ampere-waits-for-it-both-ways"
        ),
        pytest.param("a100-40gb", [], "enabling", 0, [SUCCESS, 0, 0], id="a-pending-mode-is-taken-back"),
        pytest.param("a100-40gb", [], "enabled", 1, [SUCCESS, 1, 1], id="the-mode-that-holds-needs-nothing"),
        pytest.param(
            "a100-40gb", [PROCESS], "disabled", 1, [IN_USE, 0, 1], id="Ampere-with-a-process-is-in-use"
        ),
        pytest.param(
            "a100-40gb", ["held_while /"], "disabled", 1, [IN_USE, 0, 1], id="Ampere-with-a-monitor-is-in-use"
        ),
        pytest.param(
            "a100-40gb", ["reset by-itself"], "disabled", 1, [SUCCESS, 1, 1], id="a-driver-that-resets"
        ),
        pytest.param(
            "a100-40gb",
            ["reset by-itself", "virtualization passthrough"],
            "disabled",
            1,
            [RESET_REQUIRED, 0, 1],
            id="passthrough-lets-no-driver-reset",
        ),
        pytest.param("h100-80gb", [], "disabled", 1, [SUCCESS, 1, 1], id="Hopper-switches-at-once"),
        pytest.param(
            "h100-80gb", ["held_while /"], "disabled", 1, [SUCCESS, 1, 1], id="Hopper-minds-no-monitor"
        ),
        pytest.param(
            "h100-80gb", [PROCESS], "disabled", 1, [IN_USE, 0, 1], id="Hopper-with-a-process-is-in-use"
        ),
        pytest.param(
            "h100-80gb", ["instance 9 4"], "enabled", 0, [IN_USE, 1, 0], id="instances-hold-the-mode"
        ),
        pytest.param("b200-180gb", [], "enabled", 0, [SUCCESS, 0, 0], id="Blackwell-switches-at-once"),
    ],
)
def test_status_of_setting_the_mig_mode_shows_whether_the_mode_holds(
    gpus, model, lines, mig, wanted, answered
):
    assert gpus(model, *lines, mig=mig).ask(SET_MODE.format(wanted=wanted)) == answered


def carry_out(gpus: FakeGpus, *steps: str) -> None:
    for step in steps:
        if step == "boot":
            gpus.reboot()
        elif step == "reset":
            assert gpus.smi("-r", "-i", ADDRESS).returncode == 0
        else:
            gpus.ask(f"{step}\nanswer(None)")


ENABLE = "nvmlDeviceSetMigMode(gpu, 1)"
CREATE = "nvmlGpuInstanceCreateComputeInstance(nvmlDeviceCreateGpuInstance(gpu, 0), 0)"


@pytest.mark.parametrize(
    ("model", "steps", "mode", "kept"),
    [
        pytest.param("a100-40gb", [ENABLE, "reset"], [1, 1], 0, id="a-reset-brings-Ampere-the-pending-mode"),
        pytest.param("a100-40gb", [ENABLE, "boot"], [1, 1], 0, id="so-does-a-boot"),
        pytest.param(
            "a100-40gb", [ENABLE, "reset", CREATE], [1, 1], 1, id="an-instance-stays-for-other-processes"
        ),
        pytest.param(
            "a100-40gb", [ENABLE, "reset", CREATE, "reset"], [1, 1], 0, id="a-reset-takes-instances"
        ),
        pytest.param(
            "a100-40gb", [ENABLE, "reset", CREATE, "boot"], [1, 1], 0, id="a-boot-leaves-Ampere-the-mode"
        ),
        pytest.param("h100-80gb", [ENABLE, CREATE, "reset"], [1, 1], 0, id="a-reset-leaves-Hopper-the-mode"),
        pytest.param(
            "h100-80gb", [ENABLE, CREATE, "boot"], [0, 0], 0, id="a-boot-takes-the-mode-from-Hopper"
        ),
        pytest.param("b200-180gb", [ENABLE, CREATE, "boot"], [0, 0], 0, id="a-boot-takes-it-from-Blackwell"),
        pytest.param(
            "h100-80gb", [ENABLE, CREATE, "boot", ENABLE, CREATE], [1, 1], 1, id="what-is-made-after-it-stays"
        ),
    ],
)
def test_mig_state_after_a_reset_or_boot_depends_on_the_generation(gpus, model, steps, mode, kept):
    fake = gpus(model, mig="disabled")
    carry_out(fake, *steps)
    code = """
mode = nvmlDeviceGetMigMode(gpu)
answer([mode, len(instances(gpu, 0)) if mode[0] else 0])
"""
    assert fake.ask(code) == [mode, kept]


@pytest.mark.parametrize(
    ("lines", "call", "error"),
    [
        pytest.param([], "nvmlDeviceCreateGpuInstance, gpu, 99", "InvalidArgument", id="no-such-profile"),
        pytest.param(
            [],
            "nvmlDeviceCreateGpuInstanceWithPlacement, gpu, 9, placement(2, 4)",
            "InvalidArgument",
            id="a-start-that-the-profile-does-not-have",
        ),
        pytest.param(
            [],
            "nvmlDeviceCreateGpuInstanceWithPlacement, gpu, 9, placement(0, 3)",
            "InvalidArgument",
            id="a-size-that-the-profile-does-not-have",
        ),
        pytest.param(
            ["instance 19 5"],
            "nvmlDeviceCreateGpuInstanceWithPlacement, gpu, 9, placement(4, 4)",
            "InsufficientResources",
            id="memory-that-is-taken",
        ),
        pytest.param(
            ["instance 9 4", "compute 0 2 0 0"],
            "nvmlGpuInstanceDestroy, nvmlDeviceGetGpuInstanceById(gpu, 1)",
            "InUse",
            id="a-gpu-instance-with-a-compute-instance",
        ),
        pytest.param(
            ["instance 9 4", f"{PROCESS} 1 0"],
            "nvmlGpuInstanceDestroy, nvmlDeviceGetGpuInstanceById(gpu, 1)",
            "InUse",
            id="a-gpu-instance-with-a-process",
        ),
        pytest.param(
            ["instance 9 4", "instance 9 0", f"{PROCESS} 1 0"],
            "nvmlGpuInstanceDestroy, nvmlDeviceGetGpuInstanceById(gpu, 2)",
            None,
            id="a-process-holds-its-own-instance-only",
        ),
        pytest.param(
            ["instance 9 4", "compute 0 2 0 0", f"{PROCESS} 1 0"],
            "nvmlComputeInstanceDestroy,"
            " nvmlGpuInstanceGetComputeInstanceById(nvmlDeviceGetGpuInstanceById(gpu, 1), 0)",
            "InUse",
            id="a-compute-instance-with-a-process",
        ),
        pytest.param(
            ["instance 9 4", "compute 0 0 0 0", "compute 1 0 1 1", f"{PROCESS} 1 0"],
            "nvmlComputeInstanceDestroy,"
            " nvmlGpuInstanceGetComputeInstanceById(nvmlDeviceGetGpuInstanceById(gpu, 1), 1)",
            None,
            id="the-compute-instance-beside-it",
        ),
        pytest.param(
            ["instance 9 4", "compute 0 1 0 0"],
            "nvmlGpuInstanceCreateComputeInstance, nvmlDeviceGetGpuInstanceById(gpu, 1), 1",
            "InsufficientResources",
            id="compute-slices-that-are-taken",
        ),
        pytest.param(
            ["instance 9 4"],
            "nvmlGpuInstanceCreateComputeInstance, nvmlDeviceGetGpuInstanceById(gpu, 1), 3",
            "NotSupported",
            id="a-compute-profile-larger-than-the-instance",
        ),
        pytest.param([], "nvmlDeviceGetGpuInstanceById, gpu, 1", "NotFound", id="no-such-instance"),
        pytest.param([], "nvmlDeviceGetMigDeviceHandleByIndex, gpu, 0", "NotFound", id="no-such-mig-device"),
        pytest.param(
            [],
            "nvmlDeviceGetMigDeviceHandleByIndex, gpu, 7",
            "InvalidArgument",
            id="an-index-beyond-the-last",
        ),
        pytest.param(
            [], "nvmlDeviceGetGpuInstanceProfileInfo, gpu, 18", "InvalidArgument", id="no-such-kind"
        ),
        pytest.param([], "nvmlDeviceGetGpuInstanceProfileInfo, gpu, 5", "NotSupported", id="a-kind-it-lacks"),
        pytest.param([], "nvmlDeviceSetMigMode, gpu, 2", "InvalidArgument", id="no-such-mode"),
        pytest.param([], "nvmlGpuInstanceGetInfo, gpu", "InvalidArgument", id="a-handle-of-another-kind"),
    ],
)
def test_fake_refuses_with_the_error_of_nvml(gpus, lines, call, error):
    assert gpus("h100-80gb", *lines).ask(f"answer(error_of({call}))") == error


NEED_PRIVILEGES = """
instance = None
calls = [
    (nvmlDeviceSetMigMode, gpu, 0),
    (nvmlDeviceCreateGpuInstance, gpu, 19),
    (instances, gpu, 9),
    (nvmlDeviceGetGpuInstanceById, gpu, 1),
    (nvmlDeviceGetGpuInstancePossiblePlacements, gpu, 9, None, byref(c_uint())),
    (nvmlDeviceGetGpuInstanceRemainingCapacity, gpu, 9),
    (nvmlDeviceSetPersistenceMode, gpu, 1),
    (nvmlDeviceGetComputeRunningProcesses, gpu),
]
free = [
    (nvmlDeviceGetMigMode, gpu),
    (nvmlDeviceGetGpuInstanceProfileInfo, gpu, 0),
    (nvmlDeviceGetMigDeviceHandleByIndex, gpu, 0),
]
answer([sorted({error_of(*call) for call in calls}), {error_of(*call) for call in free} == {None}])
"""


def test_unprivileged_caller_reads_modes_and_profiles_only(gpus):
    fake = gpus("h100-80gb", "instance 9 4", "compute 0 2 0 0")
    fake.describe("privileged nobody\n" + fake.description.read_text())
    assert fake.ask(NEED_PRIVILEGES) == [["NoPermission"], True]
    assert fake.instances(ADDRESS) == [Instance(9, 4, (2,))]
    assert fake.smi("-r").returncode == 4


def test_vgpu_guest_cannot_change_mig(gpus):
    code = """
answer([error_of(nvmlDeviceSetMigMode, gpu, 0), error_of(nvmlDeviceCreateGpuInstance, gpu, 19),
        error_of(nvmlGpuInstanceDestroy, nvmlDeviceGetGpuInstanceById(gpu, 1))])
"""
    fake = gpus("h100-80gb", "virtualization vgpu", "instance 9 4")
    assert fake.ask(code) == ["NotSupported"] * 3
    assert "Not Supported" in fake.smi("-r").stdout


@pytest.mark.parametrize(
    ("driver", "mig", "error"),
    [
        pytest.param("535.183.01", "disabled", "NotSupported", id="an-old-driver-with-the-mode-off"),
        pytest.param("535.183.01", "enabled", None, id="an-old-driver-with-the-mode-on"),
        pytest.param("580.95.05", "disabled", None, id="a-newer-driver-with-the-mode-off"),
    ],
)
def test_profile_listing_depends_on_driver_and_mig_mode(gpus, driver, mig, error):
    fake = gpus(mig=mig)
    fake.describe(fake.description.read_text().replace("580.95.05", driver))
    assert fake.ask("answer(error_of(nvmlDeviceGetGpuInstanceProfileInfo, gpu, 0))") == error


@pytest.mark.parametrize(
    ("structure", "name", "arguments"),
    [
        pytest.param(
            "c_nvmlGpuInstanceProfileInfo_v2_t",
            "nvmlDeviceGetGpuInstanceProfileInfoV",
            "gpu, 0",
            id="gpu-instance-profile",
        ),
        pytest.param(
            "c_nvmlComputeInstanceProfileInfo_v2_t",
            "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
            "nvmlDeviceGetGpuInstanceById(gpu, 1), 0, 0",
            id="compute-instance-profile",
        ),
        pytest.param("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV", "gpu", id="fabric"),
    ],
)
def test_unknown_structure_version_is_refused(gpus, structure, name, arguments):
    code = f"""
import pynvml
call = pynvml._nvmlGetFunctionPointer("{name}")
right, wrong = {structure}(), {structure}()
wrong.version += 8 << 24
answer([call({arguments}, byref(info)) for info in (right, wrong)])
"""
    fake = gpus("h100-80gb", "instance 9 4", "fabric in-progress")
    assert fake.ask(code) == [SUCCESS, ARGUMENT_VERSION_MISMATCH]
