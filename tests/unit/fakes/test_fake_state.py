"""The state of the fake GPUs: one for all processes, whole at any time, with faults that a test asks for."""

import signal

import pytest

from tests.fakes.nvml.gpus import FakeGpus, Instance, gpu_text

ADDRESS = "0000:1b:00.0"
OTHER = "0000:43:00.0"
CREATE_EIGHTH = """
print("started", flush=True)
input()
count = 0
while error_of(nvmlDeviceCreateGpuInstance, gpu, 19) is None:
    count += 1
answer(count)
"""


@pytest.fixture
def gpus(tmp_path):
    def make(*lines, model="h100-80gb", mig="enabled", flags=()):
        return FakeGpus(tmp_path, gpu_text(model, ADDRESS, *lines, mig=mig), *flags)

    return make


def test_each_process_sees_what_another_has_changed(gpus):
    fake = gpus()
    created = "answer(nvmlGpuInstanceGetInfo(nvmlDeviceCreateGpuInstance(gpu, 9)).id)"
    assert fake.ask(created) == 1
    assert fake.ask("answer(nvmlGpuInstanceGetInfo(nvmlDeviceGetGpuInstanceById(gpu, 1)).profileId)") == 9
    assert (
        fake.ask(
            "nvmlGpuInstanceDestroy(nvmlDeviceGetGpuInstanceById(gpu, 1)); answer(len(instances(gpu, 9)))"
        )
        == 0
    )
    assert fake.instances(ADDRESS) == []


def test_a_process_that_runs_sees_the_world_change(gpus):
    fake = gpus()
    running = fake.start(
        """
def look():
    answer([[process.pid for process in nvmlDeviceGetComputeRunningProcesses(gpu)], len(instances(gpu, 9))])
    import sys; sys.stdout.flush(); input()
look(); look(); look()
"""
    )
    seen = [running.stdout.readline()]
    fake.add(ADDRESS, "process 4711 compute 1024")
    running.stdin.write("\n")
    running.stdin.flush()
    seen.append(running.stdout.readline())
    assert fake.ask("nvmlDeviceCreateGpuInstance(gpu, 9); answer(0)") == 0
    fake.remove(ADDRESS, "process 4711 compute 1024")
    running.stdin.write("\n")
    running.stdin.flush()
    seen.append(running.stdout.readline())
    running.communicate("\n")
    assert seen == ["[[], 0]\n", "[[4711], 0]\n", "[[], 1]\n"]


def test_two_processes_at_once_get_no_more_than_there_is(gpus):
    fake = gpus()
    processes = [fake.start(CREATE_EIGHTH) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "started\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    counts = [int(process.communicate()[0]) for process in processes]
    assert sum(counts) == 7
    assert [instance.start for instance in fake.instances(ADDRESS)] == [0, 1, 2, 3, 4, 5, 6]


def test_without_a_state_file_changes_last_as_long_as_the_process(gpus):
    fake = gpus()
    code = """
before = len(instances(gpu, 9))
nvmlDeviceCreateGpuInstance(gpu, 9)
answer([before, len(instances(gpu, 9))])
"""
    assert [fake.ask(code, {"FAKE_NVML_STATE": ""}) for _ in range(2)] == [[0, 1], [0, 1]]


def test_a_gpu_that_is_no_longer_described_is_gone_with_its_instances(gpus):
    fake = gpus("instance 9 4")
    fake.ask("nvmlDeviceCreateGpuInstance(gpu, 9); answer(None)")
    fake.describe(fake.description.read_text().replace(ADDRESS, OTHER).replace("  instance 9 4\n", ""))
    assert fake.ask("answer([nvmlDeviceGetPciInfo(gpu).busId, len(instances(gpu, 9))])") == [
        "00000000:43:00.0",
        0,
    ]


GEOMETRY = (Instance(19, 0), Instance(9, 4))
CALL = "nvmlDeviceCreateGpuInstance"


@pytest.mark.parametrize(
    ("moment", "kept"),
    [
        pytest.param("killed-before", GEOMETRY[1:], id="before-the-change-leaves-the-old-state"),
        pytest.param("killed-after", GEOMETRY, id="after-the-change-leaves-the-new-one"),
    ],
)
def test_a_process_that_is_killed_in_a_call(gpus, moment, kept):
    fake = gpus("instance 9 4", f"fail {CALL} 1 {moment}")
    died = fake.start("nvmlDeviceCreateGpuInstance(gpu, 19)")
    died.communicate()
    assert died.returncode == -signal.SIGKILL
    assert fake.instances(ADDRESS) == list(kept)
    assert fake.ask("answer(error_of(nvmlDeviceCreateGpuInstance, gpu, 19))") is None


def test_a_process_that_is_killed_anywhere_leaves_a_whole_state_and_no_lock(gpus):
    fake = gpus()
    code = """
print("started", flush=True)
while True:
    nvmlGpuInstanceDestroy(nvmlDeviceCreateGpuInstance(gpu, 9))
"""
    for _ in range(8):
        process = fake.start(code)
        assert process.stdout.readline() == "started\n"
        process.kill()
        process.communicate()
        assert fake.instances(ADDRESS) in ([], [Instance(9, 4)], [Instance(9, 0)])
        fake.ask("[nvmlGpuInstanceDestroy(one) for one in instances(gpu, 9)]; answer(None)")
    assert fake.smi("-r").returncode == 0


@pytest.mark.parametrize(
    ("nth", "errors"),
    [
        pytest.param("1", ["InsufficientResources", None, None], id="the-first-call"),
        pytest.param("2", [None, "InsufficientResources", None], id="the-second-call"),
        pytest.param("every", ["InsufficientResources"] * 3, id="every-call"),
    ],
)
def test_a_call_fails_when_its_turn_comes_in_whatever_process(gpus, nth, errors):
    fake = gpus(f"fail {CALL} {nth} NVML_ERROR_INSUFFICIENT_RESOURCES")
    assert [fake.ask("answer(error_of(nvmlDeviceCreateGpuInstance, gpu, 19))") for _ in errors] == errors
    assert len(fake.instances(ADDRESS)) == errors.count(None)


def test_an_old_driver_lacks_symbols(gpus):
    code = """
answer([error_of(nvmlDeviceGetNumaNodeId, gpu), error_of(nvmlDeviceGetAddressingMode, gpu),
        error_of(nvmlDeviceGetGpuFabricInfoV, gpu, byref(c_nvmlGpuFabricInfo_v2_t())),
        error_of(nvmlDeviceGetMigMode, gpu)])
"""
    old = gpus("fabric in-progress", flags=["-DOLD_DRIVER"])
    assert old.ask(code) == ["FunctionNotFound"] * 3 + [None]


@pytest.mark.parametrize(
    ("lost", "errors"),
    [
        pytest.param("yes", [None, "GpuIsLost", "GpuIsLost"], id="a-lost-gpu-has-a-handle"),
        pytest.param("off-the-bus", ["GpuIsLost", None, None], id="one-off-the-bus-has-none"),
    ],
)
def test_a_lost_gpu_answers_nothing_and_is_still_counted(gpus, lost, errors):
    fake = gpus()
    fake.describe(fake.description.read_text() + gpu_text("h100-80gb", OTHER, f"lost {lost}", number=1))
    code = """
error = error_of(nvmlDeviceGetHandleByIndex, 1)
second = None if error else nvmlDeviceGetHandleByIndex(1)
answer([nvmlDeviceGetCount(), error_of(nvmlDeviceGetName, gpu), error,
        second and error_of(nvmlDeviceGetUUID, second),
        second and error_of(nvmlDeviceSetMigMode, second, 1)])
"""
    assert fake.ask(code) == [2, None, *errors]
    assert "GPU is lost" in fake.smi("-r", "-i", OTHER).stdout


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("mig perhaps", id="a-word-that-is-none"),
        pytest.param("memory_bytes many", id="a-number-that-is-none"),
        pytest.param("instance 99 0", id="a-profile-that-the-model-lacks"),
        pytest.param("fail nvmlDeviceSetMigMode 0 NVML_ERROR_IN_USE", id="the-zeroth-call"),
        pytest.param("fail nvmlDeviceSetMigMode 1 IN_USE", id="an-error-that-nvml-does-not-have"),
        pytest.param("nvlink 0 down", id="a-link-of-a-board-without"),
        pytest.param("colour green", id="a-key-that-is-none"),
    ],
)
def test_a_description_that_cannot_be_read_is_a_driver_that_is_not_loaded(gpus, line):
    fake = gpus(line)
    finished = fake.start("")
    assert "Driver Not Loaded" in finished.communicate()[1]
    assert fake.smi("-L").returncode == 9


@pytest.mark.parametrize(
    ("lines", "together", "refused"),
    [
        pytest.param([], False, None, id="an-idle-gpu-alone"),
        pytest.param(
            ["process 4711 graphics 1024"], False, "In use by another client", id="one-with-a-process"
        ),
        pytest.param(["held_while /"], False, "In use by another client", id="one-with-a-monitor"),
        pytest.param(
            ["persistence enabled"], False, "In use by another client", id="one-in-persistence-mode"
        ),
        pytest.param(["virtualization passthrough"], False, "Not Supported", id="one-passed-through"),
        pytest.param(["reset together"], False, "Not Supported", id="one-that-NVLink-connects"),
        pytest.param(["reset together"], True, None, id="all-that-NVLink-connects"),
        pytest.param(["fail reset 1 NVML_ERROR_UNKNOWN"], False, "Unknown Error", id="one-that-fails"),
    ],
)
def test_a_reset_is_refused_for_what_stands_in_the_way(gpus, lines, together, refused):
    fake = gpus("instance 9 4", *lines)
    other = [line for line in lines if line == "reset together"]
    fake.describe(fake.description.read_text() + gpu_text("h100-80gb", OTHER, *other, number=1))
    answer = fake.smi("-r", *(() if together else ("-i", ADDRESS)))
    assert (answer.returncode == 0) == (refused is None)
    assert (refused or "was successfully reset") in answer.stdout
    assert fake.instances(ADDRESS) == ([Instance(9, 4)] if refused else [])


def test_a_process_with_nvml_initialised_stands_in_the_way_of_a_reset(gpus):
    fake = gpus()
    client = fake.start(
        "print('started', flush=True); input(); nvmlShutdown(); print('gone', flush=True); input()"
    )
    assert client.stdout.readline() == "started\n"
    assert "In use by another client" in fake.smi("-r").stdout
    client.stdin.write("\n")
    client.stdin.flush()
    assert client.stdout.readline() == "gone\n"
    assert fake.smi("-r").returncode == 0
    client.communicate("\n")
