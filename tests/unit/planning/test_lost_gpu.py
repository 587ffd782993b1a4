"""A plan says which GPUs do not answer, and is the same plan."""

from dataclasses import replace

from numaforge.machine.topology.model import NvidiaDriver
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.gpu_machines import KINDS

PROFILE = load_profile("training")


def test_lost_gpu_is_reported_and_changes_nothing_else():
    sound = KINDS["hgx-h100"]()
    lost = replace(sound.gpus[2], uuid=None, unanswered="GPU is lost")
    plan = plan_node(replace(sound, gpus=(*sound.gpus[:2], lost, *sound.gpus[3:])), PROFILE)
    (notice,) = [notice for notice in plan.notices if notice.id == "gpu-unanswered"]
    assert notice.message.startswith("0000:30:00.0 (GPU is lost): no answer.")
    others = tuple(each for each in plan.notices if each != notice)
    assert replace(plan, notices=others) == plan_node(sound, PROFILE)


def test_failed_driver_does_not_count_gpus_as_lost():
    sound = KINDS["hgx-h100"]()
    error = "Driver Not Loaded"
    silent = tuple(replace(gpu, uuid=None, unanswered=error) for gpu in sound.gpus)
    plan = plan_node(replace(sound, gpus=silent, nvidia=NvidiaDriver(None, error=error)), PROFILE)
    assert [notice.id for notice in plan.notices if notice.id == "gpu-unanswered"] == []
