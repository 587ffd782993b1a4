"""A plan says which GPUs do not answer, and is the same plan."""

from dataclasses import replace

from numaforge.machine.topology.model import NvidiaDriver
from tests.fixtures.gpu_machines import KINDS
from tests.fixtures.plans import notices, planned


def test_lost_gpu_is_reported_and_changes_nothing_else():
    sound = KINDS["hgx-h100"]()
    lost = replace(sound.gpus[2], uuid=None, unanswered="GPU is lost")
    plan = planned(replace(sound, gpus=(*sound.gpus[:2], lost, *sound.gpus[3:])), extends="training")
    message = notices(plan)["gpu-unanswered"]
    assert message.startswith("0000:30:00.0 (GPU is lost): no answer.")
    others = tuple(each for each in plan.notices if each.id != "gpu-unanswered")
    assert replace(plan, notices=others) == planned(sound, extends="training")


def test_failed_driver_does_not_count_gpus_as_lost():
    sound, error = KINDS["hgx-h100"](), "Driver Not Loaded"
    silent = tuple(replace(gpu, uuid=None, unanswered=error) for gpu in sound.gpus)
    broken = replace(sound, gpus=silent, nvidia=NvidiaDriver(None, error=error))
    assert "gpu-unanswered" not in notices(planned(broken, extends="training"))
