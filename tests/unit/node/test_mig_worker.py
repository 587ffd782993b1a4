"""The program that cuts GPUs, on the real pynvml and a libnvidia-ml without GPUs."""

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numaforge.machine.snapshot.nvml_library import library_source
from numaforge.roles.mig.worker import source
from tests.fakes.nvml.gpus import FakeGpus, Instance, gpu_text
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

ADDRESS, OTHER = "0000:1b:00.0", "0000:43:00.0"
UUIDS = {
    ADDRESS: "GPU-00000001-0000-4000-8000-000000000000",
    OTHER: "GPU-00000002-0000-4000-8000-000000000000",
}
RUN = "import sys, worker; worker.LOCK = sys.argv[1]; worker.BUSY_SECONDS = 0; worker.run(*sys.argv[2:])"

Cut = tuple[int, int, int, tuple[int, ...]]  # profile id, start, size, compute slices

HALF: Cut = (9, 4, 4, (3,))
GEOMETRIES: tuple[tuple[Cut, ...], ...] = (
    (),
    ((0, 0, 8, (7,)),),
    ((0, 0, 8, (3, 2, 2)),),
    (HALF,),
    (HALF, (14, 0, 2, (1, 1)), (19, 2, 1, (1,)), (19, 3, 1, (1,))),
    ((5, 0, 4, (4,)), HALF),
    (HALF, (15, 0, 2, (1,)), (14, 2, 2, (2,))),
    tuple((19, start, 1, (1,)) for start in range(7)),
)


def described(model: str, address: str, *, number: int, mig: str = "disabled") -> str:
    """Describe a GPU whose /dev/nvidiaN nothing on this machine can hold: the worker looks below /proc."""
    return gpu_text(model, address, f"minor {240 + number}", number=number, mig=mig)


def form(cuts: Sequence[Cut], address: str = ADDRESS, mode: str = "enabled") -> dict[str, Any]:
    names = ("profile_id", "start", "size", "compute_instances")
    instances = [{"profile": ""} | dict(zip(names, cut, strict=True)) for cut in cuts]
    return {"pci_address": address, "uuid": UUIDS[address], "mode": mode, "instances": instances}


class Node:
    """GPUs, and the folder of the part that cuts them."""

    def __init__(self, folder: Path, *gpus: str, flags: Sequence[str] = ()) -> None:
        self.gpus = FakeGpus(folder, "".join(gpus), *flags)
        self.folder = folder / "part"
        self.folder.mkdir()
        (self.folder / "worker.py").write_text(source())
        (self.folder / "pynvml.py").write_text(library_source(source()))

    def plan(self, wanted: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]) -> None:
        for name, gpus in (("planned", wanted), ("found", found)):
            (self.folder / f"{name}.json").write_text(json.dumps({"gpus": list(gpus)}))

    def run(self, verb: str, *arguments: str) -> tuple[int, str]:
        """Run the worker without its patience; return its exit status and what it says is amiss."""
        words = arguments or (() if verb == "show" else (str(self.folder),))
        lock = str(self.folder / "lock")
        done = subprocess.run(
            [sys.executable, "-B", "-c", RUN, lock, verb, *words],
            env={**self.gpus.environment, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.said = done.stdout
        return done.returncode, done.stderr.strip()

    def change(self, wanted: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]) -> tuple[int, str]:
        """Keep and apply."""
        self.plan(wanted, found)
        kept = self.run("keep")
        return kept if kept[0] else self.run("apply")

    def show(self) -> dict[str, Any]:
        assert self.run("show") == (0, "")
        return {address: json.loads(text) for address, text in map(self._parts, self.said.splitlines())}

    @staticmethod
    def _parts(line: str) -> tuple[str, str]:
        address, _, text = line.partition("\t")
        return address, text


def in_order(gpu: dict[str, Any]) -> dict[str, Any]:
    instances = sorted(
        ({**each, "compute_instances": sorted(each["compute_instances"])} for each in gpu["instances"]),
        key=lambda each: each["start"],
    )
    return {**gpu, "instances": instances}


@pytest.fixture
def hopper(tmp_path: Path) -> Node:
    return Node(tmp_path, described("h100-80gb", ADDRESS, number=1), described("h100-80gb", OTHER, number=2))


def test_joined_worker_modules_have_no_clashing_names():
    joined = source()
    assert "numaforge.roles" not in joined
    statements = ast.parse(joined).body
    named = [each.name for each in statements if isinstance(each, ast.FunctionDef | ast.ClassDef)]
    named += [
        ast.unparse(target) for each in statements if isinstance(each, ast.Assign) for target in each.targets
    ]
    assert "run" in named
    assert len(named) == len({*named})


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(GEOMETRIES), st.sampled_from(GEOMETRIES))
def test_any_geometry_change_can_be_made_and_undone(tmp_path_factory, first, second):
    node = Node(tmp_path_factory.mktemp("node"), described("h100-80gb", ADDRESS, number=1))
    assert node.change([form(first)], [form((), mode="disabled")]) == (0, "")
    assert node.change([form(second)], [form(first)]) == (0, "")
    assert in_order(node.show()[ADDRESS]) == in_order(form(second))
    assert node.run("undo") == (0, "")
    assert in_order(node.show()[ADDRESS]) == in_order(form(first))


def test_undo_rebuilds_instances_lost_in_a_boot(hopper):
    hopper.change([form((HALF,))], [form((), mode="disabled")])
    hopper.change([form(GEOMETRIES[-1])], [form((HALF,))])
    hopper.gpus.reboot()
    assert hopper.show()[ADDRESS]["mode"] == "disabled"
    assert hopper.run("undo") == (0, "")
    assert in_order(hopper.show()[ADDRESS]) == in_order(form((HALF,)))


def test_changed_compute_instances_keep_their_gpu_instance(hopper):
    hopper.change([form(((14, 0, 2, (2,)), HALF))], [form((), mode="disabled")])
    hopper.gpus.add(ADDRESS, "fail nvmlGpuInstanceDestroy every NVML_ERROR_UNKNOWN")
    assert hopper.change([form(((14, 0, 2, (1, 1)), HALF))], [form(((14, 0, 2, (2,)), HALF))]) == (0, "")
    assert hopper.gpus.instances(ADDRESS) == [Instance(14, 0, (0, 0)), Instance(9, 4, (2,))]


def test_unlisted_gpus_are_not_touched(hopper):
    hopper.gpus.add(OTHER, "fail nvmlDeviceSetMigMode every NVML_ERROR_UNKNOWN")
    assert hopper.change([form((HALF,))], [form((), mode="disabled")]) == (0, "")
    assert hopper.show()[OTHER]["mode"] == "disabled"


def test_failed_undo_of_one_gpu_does_not_stop_the_others(hopper):
    new = [form((HALF,)), form((HALF,), OTHER)]
    hopper.change(new, [form((), mode="disabled"), form((), OTHER, "disabled")])
    hopper.gpus.add(ADDRESS, "fail nvmlGpuInstanceDestroy every NVML_ERROR_IN_USE")
    assert hopper.run("undo") == (1, f"{ADDRESS}: the GPU instance 1 cannot be destroyed: it is in use")
    assert hopper.show()[OTHER]["mode"] == "disabled"


@cases("line, reason", CASES["refusals"])
def test_nvml_refusal_is_reported_in_plain_english(hopper, line, reason):
    hopper.gpus.add(ADDRESS, line)
    status, said = hopper.change([form((HALF,))], [form((), mode="disabled")])
    assert status == 1
    assert said.startswith(f"{ADDRESS}: ")
    assert reason in said


def test_placement_unknown_to_the_gpu_is_refused(hopper):
    status, said = hopper.change([form(((9, 2, 4, (3,)),))], [form((), mode="disabled")])
    assert (status, said.partition(": ")[2]) == (
        1,
        "the GPU instance 9 at 2 cannot be created: NVML knows no such profile or placement",
    )


def test_missing_driver_is_reported(hopper):
    hopper.plan([form((HALF,))], [form((), mode="disabled")])
    hopper.gpus.description.unlink()
    assert hopper.run("keep") == (1, "NVML does not answer: the NVIDIA driver is not loaded")


def test_replaced_gpu_is_not_partitioned(hopper):
    wanted = {**form((HALF,)), "uuid": UUIDS[OTHER]}
    assert hopper.change([wanted], [form((), mode="disabled")])[0] == 1
    assert hopper.gpus.mode(ADDRESS) == "disabled"


def test_driver_before_550_is_queried_with_its_older_api(tmp_path):
    node = Node(tmp_path, described("a100-40gb", ADDRESS, number=1, mig="enabled"), flags=("-DOLD_DRIVER",))
    assert node.change([form((HALF,))], [form(())]) == (0, "")
    assert in_order(node.show()[ADDRESS]) == in_order(form((HALF,)))


@pytest.mark.parametrize(
    ("model", "cuts"),
    [
        ("a30-24gb", ((5, 0, 2, (2,)), (14, 2, 1, (1,)), (21, 3, 1, (1,)))),
        ("h200-141gb", ((5, 0, 4, (4,)), (15, 4, 2, (1,)), (20, 6, 1, (1,)))),
        ("b200-180gb", ((9, 0, 4, (3,)), (9, 4, 4, (3,)))),
        ("rtx-pro-6000-96gb", ((5, 0, 6, (2,)), (14, 6, 3, (1,)), (47, 9, 3, (1,)))),
    ],
)
def test_every_family_is_partitioned_by_profile_id_and_placement(tmp_path, model, cuts):
    node = Node(tmp_path, described(model, ADDRESS, number=1, mig="enabled"))
    assert node.change([form(cuts)], [form(())]) == (0, "")
    assert in_order(node.show()[ADDRESS]) == in_order(form(cuts))


def test_boot_sets_only_the_mode_under_the_dra_driver(hopper, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"mig": {"gpus": [form(())], "managed_by": "dra-driver"}}))
    assert hopper.run("boot", str(plan)) == (0, "")
    assert hopper.gpus.mode(ADDRESS) == "enabled"
    hopper.change([form((HALF,))], [form(())])
    assert hopper.run("boot", str(plan)) == (0, "")
    assert hopper.gpus.instances(ADDRESS) == [Instance(9, 4, (2,))]


def test_reboot_only_mode_is_set_and_awaits_the_reboot(tmp_path):
    guest = described("a100-40gb", ADDRESS, number=1) + "  virtualization passthrough\n"
    node = Node(tmp_path, guest)
    small: Cut = (19, 0, 1, (1,))
    node.plan([{**form((small,)), "by_boot": True}], [form((), mode="disabled")])

    def waits(verb: str) -> str:
        assert node.run(verb) == (0, "")
        return node.said.strip()

    assert node.run("keep") == (0, "")
    assert node.run("apply") == (0, "")
    assert (node.gpus.mode(ADDRESS), waits("pending-new"), waits("pending-old")) == ("enabling", ADDRESS, "")
    assert node.run("prove")[0] == 1  # not so yet
    node.gpus.reboot()
    assert waits("pending-new") == ""
    assert node.run("apply") == (0, "")
    assert node.run("prove") == (0, "")
    assert node.run("undo") == (0, "")
    assert (node.gpus.instances(ADDRESS), waits("pending-old")) == ([], ADDRESS)
    node.gpus.reboot()
    assert node.run("undo") == (0, "")
    assert in_order(node.show()[ADDRESS]) == in_order(form((), mode="disabled"))
