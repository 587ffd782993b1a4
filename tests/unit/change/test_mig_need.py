"""Which GPUs a node cuts anew, and what it refuses before anything is touched."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from numaforge.change.goal import Goal
from numaforge.change.look import question
from numaforge.change.need import need, pending
from numaforge.lib.errors import HostError
from numaforge.machine.topology.model import ComputeInstance, Gpu, GpuInstance
from numaforge.node.part import NodeState, Part, Unit
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import role_files
from numaforge.roles.mig import files as mig_files
from numaforge.roles.mig import part as mig
from numaforge.roles.mig.files import MIG_LIBRARY_PATH, MIG_UNIT_PATH, MIG_WORKER_PATH
from numaforge.roles.mig.instance import MigGpu, MigInstance, MigPlan
from numaforge.roles.mig.mode import part as mig_mode
from numaforge.roles.reboot import part as reboot
from tests.fixtures.machines import kubeadm_kubelet, lab_node
from tests.fixtures.tables import cases

ADDRESS, OTHER = "0000:1b:00.0", "0000:43:00.0"
READY = ("unit enabled", "python 3.11", "library yes")
RUNNING, STOPPED = Unit("active", "running", ("curl",)), Unit("inactive", "dead", ("curl",))

HALF = MigInstance("3g.40gb", 9, 4, 4, (3,))
QUARTER = MigInstance("2g.20gb", 14, 0, 2, (1, 1))


def seen(instance: MigInstance, number: int = 1) -> GpuInstance:
    compute = tuple(ComputeInstance(index, slices) for index, slices in enumerate(instance.compute_instances))
    return GpuInstance(number, instance.profile_id, instance.start, instance.size, compute)


def gpu(address: str = ADDRESS, mode: str | None = "enabled", **fields: Any) -> Gpu:
    known = {"uuid": f"GPU-{address}", "mig_mode": mode, "mig_pending": mode, "gpu_instances": ()}
    return Gpu(address, "10de", "2330", 0, **{**known, **fields})


def cut(*instances: MigInstance, address: str = ADDRESS, mode: str = "enabled") -> MigGpu:
    return MigGpu(address, f"GPU-{address}", mode, instances)


def goal(wanted: Sequence[MigGpu], gpus: Sequence[Gpu], *roles: str, by: str = "numaforge") -> Goal:
    machine = replace(lab_node(), kubelet=kubeadm_kubelet(), gpus=tuple(gpus))
    plan = plan_node(machine, load_profile({"name": "t", "memory": {"system_reserved": "512Mi"}}))
    planned = MigPlan(tuple(wanted), by)
    return Goal(
        replace(plan, mig=planned, files=(*plan.files, *mig_files.files(replace(plan, mig=planned)))),
        machine,
        frozenset(roles or ("mig", "kubelet")),
    )


def needed(on: Goal, said: Sequence[str] = READY, unit: Unit = RUNNING) -> Part | None:
    found = NodeState({}, (), said={"mig": tuple(said)}, unit=lambda: unit)
    return mig.need(on, found, ())


def test_node_partitioned_as_planned_needs_nothing():
    on = goal([cut(HALF, QUARTER)], [gpu(gpu_instances=(seen(QUARTER, 5), seen(HALF)))])
    assert needed(on) is None


def test_uncalled_role_changes_no_gpu():
    on = goal([cut(HALF)], [gpu(), passed_through()], "interrupts")
    on = replace(on, plan=replace(on.plan, mig=replace(on.plan.mig, pending=(cut(HALF),))))
    found = NodeState({}, ())
    transaction = need(on, found)
    assert "mig" not in [part for part, *_ in question(on).calls]
    assert {"mig", "mig_mode"}.isdisjoint(part.name for part in transaction.parts)
    assert pending(on, found) == ()


def test_gpus_not_named_in_a_plan_are_unchanged():
    on = goal([cut(HALF)], [gpu(gpu_instances=(seen(HALF),)), gpu(OTHER, gpu_instances=(seen(QUARTER),))])
    assert needed(on) is None


def test_only_gpus_that_differ_are_sent_to_the_node():
    on = goal([cut(HALF), cut(QUARTER, address=OTHER)], [gpu(gpu_instances=(seen(HALF),)), gpu(OTHER)])
    part = needed(on)
    assert [each["pci_address"] for each in json.loads(part.data["planned.json"])["gpus"]] == [OTHER]
    assert [each["instances"] for each in json.loads(part.data["found.json"])["gpus"]] == [[]]


ON, OFF = "MIG mode disabled -> enabled", "MIG mode enabled -> disabled"
CUT_QUARTER = "+ 2g.20gb at 0, compute slices 1+1"
TWO_SLICES = seen(replace(QUARTER, compute_instances=(2,)))


@cases(
    "wanted, now, moves",
    {
        "a mode and what comes": (
            cut(HALF),
            gpu(mode="disabled"),
            [ON, "+ 3g.40gb at 4, compute slices 3"],
        ),
        "what goes with the mode": (
            cut(mode="disabled"),
            gpu(gpu_instances=(seen(HALF),)),
            [OFF, "- profile 9 at 4, compute slices 3"],
        ),
        "what stays is not named": (cut(HALF, QUARTER), gpu(gpu_instances=(seen(HALF),)), [CUT_QUARTER]),
        "other compute instances": (
            cut(QUARTER),
            gpu(gpu_instances=(TWO_SLICES,)),
            ["- 2g.20gb at 0, compute slices 2", CUT_QUARTER],
        ),
        "a mode that waits for a reset": (
            cut(mode="disabled"),
            gpu(mode="disabled", mig_pending="enabled"),
            ["MIG mode enabled, which waits for a reset -> disabled"],
        ),
    },
)
def test_every_change_has_a_line(wanted, now, moves):
    part = needed(goal([wanted], [now]))
    assert list(part.moves) == [f"{ADDRESS}: {line}" for line in moves]


def test_gpus_partitioned_by_the_gpu_operator_are_left_alone():
    on = goal([cut(HALF)], [gpu(mode="disabled")], by="gpu-operator")
    assert needed(on, READY[1:]) is None
    assert role_files(on.plan, "mig") == []


def test_only_the_mode_of_gpus_partitioned_by_the_dra_driver_is_managed():
    assert needed(goal([cut()], [gpu(gpu_instances=(seen(HALF),))], by="dra-driver")) is None
    part = needed(goal([cut()], [gpu(mode="disabled")], by="dra-driver"))
    assert part.moves == (f"{ADDRESS}: MIG mode disabled -> enabled",)


@pytest.mark.parametrize("unit", [RUNNING, STOPPED], ids=["runs", "stopped"])
def test_node_is_drained_and_its_kubelet_restarts_for_device_plugins(unit):
    part = needed(goal([cut(HALF)], [gpu()]), unit=unit)
    assert part.drains
    assert part.restarts_kubelet
    assert part.units == ("numaforge-mig.service",)  # which must not run before the transaction has ended


def test_units_that_hold_a_gpu_are_sent_with_those_of_the_profile():
    on = goal([cut(HALF)], [gpu()])
    on = replace(on, plan=replace(on.plan, mig=replace(on.plan.mig, may_stop=("dcgm.service",))))
    part = needed(on, (*READY, "holds docker.service", "holds nvidia-persistenced.service"))
    assert part.data["units"] == (
        "seen docker.service\nseen nvidia-persistenced.service\nnamed dcgm.service\n"
    )
    assert part.sentences[1] == (
        "nvidia-persistenced.service, which holds a GPU, may be stopped for that, and is started again"
    )


@pytest.mark.parametrize(
    ("said", "wanted", "move"),
    [
        pytest.param(READY[1:], [cut(HALF)], "disabled -> enabled", id="it-comes-with-a-plan"),
        pytest.param(READY, [], "enabled -> disabled", id="it-goes-with-the-last-planned-gpu"),
    ],
)
def test_boot_unit_follows_the_plan_and_disturbs_no_pod(said, wanted, move):
    part = needed(goal(wanted, [gpu(gpu_instances=(seen(HALF),))]), said)
    assert part.moves == (f"numaforge-mig.service: {move}",)
    assert (part.drains, part.restarts_kubelet, dict(part.data)) == (False, False, {})


@cases(
    "gpus, said, message",
    {
        "vanished": ([], READY, "the planned GPU GPU-0000:1b:00.0 is not there"),
        "replaced": ([gpu(uuid="GPU-2")], READY, "is not there"),
        "without-nvml": ([gpu(mode=None)], READY, "NVML does not report this GPU's instances"),
        "instances-unknown": ([gpu(gpu_instances=None)], READY, "does not report this GPU's instances"),
        "off-the-bus": ([gpu(mode=None, unanswered="GPU is lost")], READY, r"instances \(GPU is lost\)"),
        "no-python": ([gpu()], ["unit enabled"], "python3 3.9 or later, and it has none"),
        "old-python": ([gpu()], ["python 3.6", "library yes"], "and it has 3.6"),
        "no-library": ([gpu()], ["python 3.12"], "has no libnvidia-ml.so.1"),
    },
)
def test_unusable_gpu_or_node_is_refused_with_a_remedy(gpus, said, message):
    with pytest.raises(HostError, match=message) as error:
        needed(goal([cut(HALF)], gpus), said)
    assert error.value.remedy


def test_remedy_for_an_old_python_selects_a_newer_version():
    with pytest.raises(HostError) as error:
        needed(goal([cut(HALF)], [gpu()]), ["python 3.6", "library yes"])
    assert "alternatives --set python3 /usr/bin/python3.11" in (error.value.remedy or "")


def test_mig_change_without_kubelet_restart_is_refused():
    with pytest.raises(HostError, match="the kubelet runs: it offers what its device plugins found"):
        needed(goal([cut(HALF)], [gpu()], "mig"))


# ---- a mode that only a boot changes ----

A100 = {"device": "20b0", "virtualization": "passthrough"}


def passed_through(mode: str = "disabled", **fields: Any) -> Gpu:
    return replace(gpu(mode=mode), **{**A100, **fields})


@pytest.mark.parametrize(
    ("now", "by_boot"),
    [
        pytest.param(passed_through(), True, id="an-ampere-that-is-passed-through"),
        pytest.param(passed_through(device="ffff"), True, id="one-of-a-model-that-is-not-known"),
        pytest.param(passed_through(device="2330"), False, id="a-hopper-needs-no-reset"),
        pytest.param(passed_through(virtualization="none"), False, id="a-host-resets-it"),
        pytest.param(passed_through(virtualization=None), False, id="not-known"),
    ],
)
def test_mig_mode_changes_by_reboot_when_no_reset_is_possible(now: Gpu, *, by_boot: bool) -> None:
    part = mig_mode.need(goal([cut(HALF)], [now]), NodeState({}, ()), ())
    assert (part is not None) is by_boot
    if part is not None:
        assert part.moves == (f"{ADDRESS}: MIG mode disabled -> enabled, with the reboot",)
        assert (part.drains, part.reboots) == (True, True)
        assert reboot.need(goal([cut(HALF)], [now]), NodeState({}, ()), [part]) is not None


def test_mig_mode_set_by_a_boot_is_reported_once():
    part = needed(goal([cut(HALF)], [passed_through()]))
    assert part.moves == (f"{ADDRESS}: + 3g.40gb at 4, compute slices 3",)
    assert [each["by_boot"] for each in json.loads(part.data["planned.json"])["gpus"]] == [True]


@pytest.mark.parametrize(
    "on",
    [
        pytest.param(goal([cut(HALF)], [passed_through("enabled")]), id="the-mode-is-there"),
        pytest.param(goal([cut(HALF)], [passed_through()], by="gpu-operator"), id="the-gpu-operators"),
    ],
)
def test_matching_mode_or_operator_managed_gpus_need_no_reboot(on):
    assert mig_mode.need(on, NodeState({}, ()), ()) is None


def test_change_that_waits_for_a_forbidden_reboot_is_reported():
    on = goal([], [passed_through()])
    on = replace(on, plan=replace(on.plan, mig=MigPlan(pending=(cut(HALF),))))
    assert mig_mode.need(on, NodeState({}, ()), ()) is None
    assert mig_mode.pending(on, NodeState({}, ())) == (
        f"pending: the MIG mode ({ADDRESS} enabled); maintenance.reboot is never"
    )
    assert mig_mode.pending(goal([cut(HALF)], [passed_through()]), NodeState({}, ())) is None


def test_node_boots_with_the_worker_and_library_of_the_transaction():
    on = goal([cut(HALF)], [gpu()])
    part = needed(on)
    texts = {file.path: file.text for file in role_files(on.plan, "mig")}
    assert texts[MIG_WORKER_PATH].partition("\n")[2] == part.data["worker.py"]
    assert texts[MIG_LIBRARY_PATH].partition("\n")[2].rstrip() == part.data["pynvml.py"].rstrip()
    unit = texts[MIG_UNIT_PATH].splitlines()
    assert "Before=kubelet.service" in unit
    assert f"ExecStart=python3 -BEs {MIG_WORKER_PATH} boot /etc/numaforge/plan.json" in unit
    assert "TimeoutStartSec=300" in unit
