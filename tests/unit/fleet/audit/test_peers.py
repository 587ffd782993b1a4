"""Which machine differs from its siblings, and when none does."""

from dataclasses import replace

import pytest

from numaforge.fleet.audit.facts import PEER_RULE, text_of
from numaforge.fleet.audit.machine import audited
from numaforge.fleet.audit.makes import Make, make_of, with_lost
from numaforge.fleet.audit.peers import unusual_of
from numaforge.machine.topology.model import NodeTopology, NvidiaDriver, NvidiaInstall
from numaforge.machine.topology.saved import ready_machine
from tests.fixtures.gpu_machines import KINDS
from tests.fixtures.tables import cases

FOUR, FOUR_AND_ONE = ("a",) * 4, (*("a",) * 4, "b")


def of_kernels(*kernels: str | None) -> dict[str, list[str]]:
    """Return the rules by which machines with these kernels differ, by name."""
    make = {
        f"gpu-{number}": {} if kernel is None else {"NA101": {"": kernel}}
        for number, kernel in enumerate(kernels)
    }
    return {name: [*rules] for name, rules in unusual_of(make).items()}


@pytest.mark.parametrize(
    ("kernels", "unlike"),
    [
        pytest.param(FOUR, [], id="all-alike"),
        pytest.param(FOUR_AND_ONE, ["gpu-4"], id="one-of-five"),
        pytest.param(("a", "a", "a", "b"), ["gpu-3"], id="three-siblings-suffice"),
        pytest.param(("a", "a", "b"), [], id="two-siblings-do-not"),
        pytest.param(("a", "a", "a", "b", "b", "b"), [], id="a-tie-is-no-outlier"),
        pytest.param(("a", "a", "a", "b", "b", "c", "c"), [], id="less-than-half-is-no-majority"),
        pytest.param((*FOUR, "b", "c"), ["gpu-4", "gpu-5"], id="two-that-differ-each-in-its-way"),
        pytest.param((*FOUR, None), [], id="what-is-not-known-is-not-compared"),
    ],
)
def test_machine_is_compared_with_the_majority_of_its_siblings(kernels, unlike):
    assert of_kernels(*kernels) == {name: ["NA101"] for name in unlike}


EIGHT = {"on": tuple(f"gpu{number}" for number in range(8))}


@cases(
    "rule, value, blamed",
    {
        "equal": ("NA124", EIGHT, None),
        "one-device-differs": ("NA124", {"on": EIGHT["on"][:7], "off": ("gpu7",)}, ("gpu7",)),
        "all-devices-differ": ("NA124", {"off": EIGHT["on"]}, ()),
        "one-less-is-told-by-the-count-alone": ("NA124", {"on": EIGHT["on"][:7]}, None),
        "one-less-is-told-by-the-count": ("NA120", {"on": EIGHT["on"][:7]}, ()),
        "one-less-and-one-differs": ("NA124", {"on": EIGHT["on"][:6], "off": ("gpu7",)}, ("gpu7",)),
    },
)
def test_differing_devices_are_named(rule, value, blamed):
    make = {f"gpu-{number}": {rule: {"": EIGHT}} for number in range(4)}
    found = unusual_of({**make, "odd": {rule: {"": value}}})
    assert {name: rules[rule][0].devices for name, rules in found.items()} == (
        {} if blamed is None else {"odd": blamed}
    )


@cases(
    "rule, one, other, alike",
    {
        "a-little-memory-is-the-kernels": ("NA112", "1007.5, 1007.5 GiB", "1007.1, 1008.0 GiB", True),
        "a-module-less-is-more-than-that": ("NA112", "1007.5, 1007.5 GiB", "1007.5, 943.5 GiB", False),
        "a-NUMA-node-less": ("NA112", "1007.5, 1007.5 GiB", "1007.5 GiB", False),
        "small-numbers-are-exact": ("NA117", "60", "61", False),
        "large-numbers-are-made-of-the-memory": ("NA117", "8386560", "8386304", True),
        "versions-are-exact": ("NA101", "6.8.0", "6.8.1", False),
    },
)
def test_only_memory_derived_values_have_a_tolerance(rule, one, other, alike):
    assert PEER_RULE[rule].alike(one, other) is alike
    assert PEER_RULE[rule].alike(other, one) is alike


def test_slightly_varying_memory_has_one_usual_value():
    make = {f"gpu-{number}": {"NA112": {"": f"{1000 + number / 10:.1f} GiB"}} for number in range(20)}
    make["odd"] = {"NA112": {"": "936.0 GiB"}}
    assert [*unusual_of(make)] == ["odd"]


@pytest.mark.parametrize("name", ["dgx-h100", "gb200", "mi300x", "small-vm", "xeon-snc4"])
def test_identical_machines_have_nothing_unusual(name):
    facts = audited(ready_machine(name)).facts
    assert unusual_of({f"host-{number}": facts for number in range(4)}) == {}


def test_every_peer_rule_accepts_an_empty_machine():
    bare = replace(ready_machine("small-vm"), cpufreq=None, userland=None, kubelet=None, os_release={})
    for rule in PEER_RULE.values():
        assert all(isinstance(text_of(value), str) for value in rule.read(bare).values())


DGX = replace(ready_machine("dgx-h100"), product="NVIDIA DGXH100", nvidia=NvidiaDriver("580.95.05"))


@pytest.mark.parametrize(
    ("machine", "same"),
    [
        pytest.param(replace(DGX, gpus=DGX.gpus[1:]), True, id="a-GPU-less"),
        pytest.param(replace(DGX, cpus=replace(DGX.cpus, online=DGX.online - {3})), True, id="a-CPU-less"),
        pytest.param(replace(DGX, kernel="7.0"), True, id="another-kernel"),
        pytest.param(replace(DGX, product="Dell XE9680"), False, id="another-product"),
        pytest.param(replace(DGX, cpu_vendor="AuthenticAMD"), False, id="another-maker-of-processors"),
        pytest.param(KINDS["hgx-b200"](), False, id="other-GPUs"),
    ],
)
def test_make_is_decided_by_product_and_hardware_vendor(machine, same):
    assert (make_of(machine) == make_of(DGX)) is same


def test_cpus_distinguish_servers_with_equal_gpus_and_no_product():
    one, other = ready_machine("dgx-h100"), ready_machine("epyc-gpu")
    assert {gpu.device for gpu in one.gpus} == {gpu.device for gpu in other.gpus}
    assert make_of(one) != make_of(other)


def makes(whole: int, *others: NodeTopology) -> list[Make]:
    return with_lost([*[make_of(DGX)] * whole, *map(make_of, others)])


NO_GPU = replace(DGX, gpus=())


def test_machine_with_all_gpus_lost_stays_with_its_siblings():
    assert makes(3, NO_GPU)[-1] == make_of(DGX)


@pytest.mark.parametrize(
    ("whole", "others"),
    [
        pytest.param(3, (replace(NO_GPU, nvidia=None),), id="no-driver-of-NVIDIAs"),
        pytest.param(2, (NO_GPU,), id="too-few-siblings"),
        pytest.param(3, (NO_GPU,) * 3, id="several-without-GPUs-are-a-make"),
        pytest.param(3, (replace(NO_GPU, product="Dell R650"),), id="another-product"),
    ],
)
def test_machine_without_gpus_may_be_another_make(whole, others):
    assert makes(whole, *others)[-1] != make_of(DGX)


def test_driver_on_disk_identifies_a_machine_that_lost_its_gpus():
    on_disk = replace(NO_GPU, nvidia=None, nvidia_install=NvidiaInstall(on_disk="580.95.05"))
    assert makes(3, on_disk)[-1] == make_of(DGX)
