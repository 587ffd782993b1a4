"""Rails: which GPUs are nearest to which RDMA device, and which device each GPU should use."""

from collections import Counter
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from numaforge.machine.topology.model import Gpu, RdmaDevice, RdmaPort
from numaforge.machine.topology.rails import best_devices, distance_to_device, rails
from tests.fixtures import machines
from tests.fixtures.tables import cases

UP = (RdmaPort(1, "InfiniBand", "ACTIVE", "400 Gb/sec (4X NDR)"),)
DOWN = (RdmaPort(1, "InfiniBand", "DOWN", "10 Gb/sec (4X SDR)"),)
SLOW = (RdmaPort(1, "Ethernet", "ACTIVE", "25 Gb/sec (1X EDR)"),)


def gpu(address, numa_node=0):
    return Gpu(address, "10de", "2330", numa_node)


def nic(name, address, numa_node=0, ports=UP, **more):
    return RdmaDevice(name, address, None, "mlx5_core", numa_node, ports, **more)


def host(*devices, packages=2):
    """Return a machine of 2 NUMA nodes; devices of one bus share a switch, those of one digit a root port."""
    paths = {}
    for address in (one.pci_address for one in devices if one.pci_address):
        bus = address[5:7]
        switch = (f"0000:{bus}:00.0", f"0000:{bus}:01.0")
        paths[address] = (f"pci0000:{bus[0]}0", f"0000:{bus[0]}0:01.0", *switch, address)
    return replace(
        machines.machine(packages=packages, cores_per_numa_node=2, pci_paths=paths),
        gpus=tuple(one for one in devices if isinstance(one, Gpu)),
        rdma_devices=tuple(one for one in devices if isinstance(one, RdmaDevice)),
    )


def by_name(topology):
    """Return `{"mlx5_0": "GPU GPU, PIX"}` with the last part of each GPU's address."""
    return {
        rail.device.name: (" ".join(gpu[5:] for gpu in rail.gpus), rail.distance) for rail in rails(topology)
    }


def best(topology):
    return [device.name for device in best_devices(topology).values()]


def one_each(count):
    return [f"mlx5_{number}" for number in range(count)]


@cases(
    "machine, distances, chosen",
    {
        "dgx-h100-one-gpu-on-each-rail": (machines.dgx_h100, ["PIX"] * 8, one_each(8)),
        "hgx-a100-storage-is-on-no-rail": (machines.hgx_a100, ["PXB"] * 8 + [None] * 2, one_each(8)),
        "hgx-b200-without-its-nvswitches": (machines.hgx_b200, ["PIX"] * 8, one_each(8)),
        "gb200-across-host-bridges": (machines.gb200_nvl72_tray, ["NODE"] * 4, one_each(4)),
        "gb200-bluefield-is-slower": (machines.gb200_bluefield, ["NODE"] * 4 + [None] * 2, one_each(4)),
        "mi300x": (machines.mi300x, ["PIX"] * 8, one_each(8)),
        "one-nic-for-two-gpus": (lambda: machines.nvlink_bridges(1), ["PHB"], ["mlx5_0"] * 2),
        "no-rdma": (machines.lab_node, [], []),
    },
)
def test_known_machines_get_their_expected_rails(machine, distances, chosen):
    topology = machine()
    assert [rail.distance for rail in rails(topology)] == distances
    assert best(topology) == chosen


CLOSE = "0000:11:00.0"


@cases(
    "devices, expected",
    {
        "the-nearest-alone": (
            [nic("mlx5_0", "0000:11:01.0"), nic("mlx5_1", "0000:12:01.0")],
            {"mlx5_0": ("11:00.0", "PIX"), "mlx5_1": ("", None)},
        ),
        "both-functions-of-a-card": (
            [nic("mlx5_0", "0000:11:01.0"), nic("mlx5_1", "0000:11:01.1")],
            {"mlx5_0": ("11:00.0", "PIX"), "mlx5_1": ("11:00.0", "PIX")},
        ),
        "a-port-that-is-down-yields-to-one-as-near": (
            [nic("mlx5_0", "0000:11:01.0", ports=DOWN), nic("mlx5_1", "0000:11:01.1")],
            {"mlx5_1": ("11:00.0", "PIX"), "mlx5_0": ("", None)},
        ),
        "a-port-that-is-down-does-not-yield-to-one-farther-off": (
            [nic("mlx5_0", "0000:11:01.0", ports=DOWN), nic("mlx5_1", "0000:12:01.0")],
            {"mlx5_0": ("11:00.0", "PIX"), "mlx5_1": ("", None)},
        ),
        "one-of-two-ports-up-is-up": (
            [nic("mlx5_0", "0000:11:01.0", ports=DOWN + UP)],
            {"mlx5_0": ("11:00.0", "PIX")},
        ),
        "a-slower-kind-yields": (
            [
                nic("mlx5_0", "0000:11:01.0", ports=SLOW, vendor="15b3", device="101d"),
                nic("mlx5_1", "0000:11:02.0", vendor="15b3", device="1021"),
            ],
            {"mlx5_1": ("11:00.0", "PIX"), "mlx5_0": ("", None)},
        ),
        "one-that-trained-lower-is-of-its-kind": (
            [nic("mlx5_0", "0000:11:01.0", ports=SLOW), nic("mlx5_1", "0000:11:02.0")],
            {"mlx5_0": ("11:00.0", "PIX"), "mlx5_1": ("11:00.0", "PIX")},
        ),
        "no-virtual-function-beside-its-physical-one": (
            [nic("mlx5_0", "0000:11:01.0"), nic("mlx5_1", "0000:11:01.1", physical_function="0000:11:01.0")],
            {"mlx5_0": ("11:00.0", "PIX")},
        ),
        "a-virtual-function-whose-physical-one-is-down": (
            [
                nic("mlx5_0", "0000:11:01.0", ports=DOWN),
                nic("mlx5_1", "0000:11:01.1", physical_function="0000:11:01.0"),
            ],
            {"mlx5_1": ("11:00.0", "PIX"), "mlx5_0": ("", None)},
        ),
        "no-virtual-function-where-both-are-down": (
            [
                nic("mlx5_0", "0000:11:01.0", ports=DOWN),
                nic("mlx5_1", "0000:11:01.1", ports=DOWN, physical_function="0000:11:01.0"),
            ],
            {"mlx5_0": ("11:00.0", "PIX")},
        ),
        "a-virtual-function-whose-physical-one-has-no-device": (
            [nic("mlx5_1", "0000:11:01.1", physical_function="0000:11:01.0")],
            {"mlx5_1": ("11:00.0", "PIX")},
        ),
        "no-management-function-however-near": (
            [nic("mlx5_0", "0000:11:01.0", management=True), nic("mlx5_1", "0000:12:01.0")],
            {"mlx5_1": ("11:00.0", "PXB")},
        ),
        "what-may-be-a-nic-is-one": (
            [nic("mlx5_0", "0000:11:01.0", management=None)],
            {"mlx5_0": ("11:00.0", "PIX")},
        ),
        "neither-software-nor-an-unknown-distance": (
            [nic("rxe0", None, numa_node=1), nic("mlx5_0", "0000:21:01.0", None)],
            {"mlx5_0": ("", None), "rxe0": ("", None)},
        ),
        "a-path-needs-no-numa-node": ([nic("mlx5_0", "0000:11:01.0", None)], {"mlx5_0": ("11:00.0", "PIX")}),
    },
)
def test_single_gpu_gets_its_rails(devices, expected):
    found = by_name(host(gpu(CLOSE), *devices))
    assert list(found.items()) == list(expected.items())


@cases(
    "devices, chosen",
    {
        "each-takes-one": (
            [gpu(CLOSE), gpu("0000:11:02.0"), nic("a", "0000:11:03.0"), nic("b", "0000:11:04.0")],
            ["a", "b"],
        ),
        "two-each": (
            [gpu(f"0000:11:0{number}.0") for number in range(4)]
            + [nic("a", "0000:11:08.0"), nic("b", "0000:11:09.0")],
            ["a", "b", "a", "b"],
        ),
        "in-the-order-of-addresses-not-names": (
            [
                gpu("0000:11:00.0", 0),
                gpu("0000:31:00.0", 0),
                nic("b", "0000:51:03.0"),
                nic("a", "0000:52:04.0"),
            ],
            ["b", "a"],
        ),
    },
)
def test_gpus_share_equally_near_devices(devices, chosen):
    assert best(host(*devices)) == chosen


def test_gpu_yields_its_device_to_a_gpu_without_a_choice():
    """Both devices are PXB from the first GPU, one of them alone PIX from the second."""
    first, second = gpu("0000:13:00.0"), gpu("0000:11:00.0")
    topology = host(second, first, nic("mlx5_0", "0000:11:01.0"), nic("mlx5_1", "0000:12:01.0"))
    assert {gpu: device.name for gpu, device in best_devices(topology).items()} == {
        "0000:11:00.0": "mlx5_0",
        "0000:13:00.0": "mlx5_1",
    }
    swapped = host(gpu("0000:12:00.0"), gpu("0000:11:00.0"), *topology.rdma_devices)
    assert best(swapped) == ["mlx5_0", "mlx5_1"]
    late = host(gpu("0000:10:00.0"), gpu("0000:11:00.0"), *topology.rdma_devices)
    assert best(late) == ["mlx5_1", "mlx5_0"]


ADDRESSES = [f"0000:{bus}:0{slot}.0" for bus, slot in product((11, 12, 21, 31), range(4))]


@st.composite
def topologies(draw):
    placed = draw(st.permutations(ADDRESSES))
    node = st.sampled_from([None, 0, 1])
    gpus = [gpu(address, draw(node)) for address in placed[: draw(st.integers(0, 8))]]
    ports = st.sampled_from([UP, DOWN, SLOW, ()])
    nics = []
    for number, address in enumerate(placed[8 : 8 + draw(st.integers(0, 8))]):
        parent = draw(st.sampled_from([None, None, *(one.pci_address for one in nics[:1])]))
        kind = draw(st.sampled_from(["1021", "101d", None]))
        nics.append(
            nic(
                f"mlx5_{number}",
                draw(st.sampled_from([address, address, address, None])),
                draw(node),
                draw(ports),
                management=draw(st.sampled_from([False, False, None, True])),
                physical_function=parent,
                device=kind,
            )
        )
    return host(*gpus, *nics)


@given(topologies())
def test_every_gpu_with_a_known_distance_to_a_carrier_is_on_a_rail(topology):
    listed = rails(topology)
    on_rails = {gpu for rail in listed for gpu in rail.gpus}
    near = {
        one.pci_address
        for one in topology.gpus
        if any(distance_to_device(one, rail.device, topology) for rail in listed)
    }
    assert on_rails == near == set(best_devices(topology))


@given(topologies())
def test_every_physical_function_except_management_is_a_rail(topology):
    names = {rail.device.name for rail in rails(topology)}
    assert not names & {one.name for one in topology.rdma_devices if one.management}
    own = {one.name for one in topology.rdma_devices if not one.management and one.physical_function is None}
    assert own <= names


@given(topologies())
def test_best_device_of_a_gpu_is_its_nearest(topology):
    order = ("PIX", "PXB", "PHB", "NODE", "SYS", None)
    gpus = {one.pci_address: one for one in topology.gpus}
    for address, chosen in best_devices(topology).items():
        distances = [distance_to_device(gpus[address], rail.device, topology) for rail in rails(topology)]
        own = distance_to_device(gpus[address], chosen, topology)
        assert order.index(own) == min(map(order.index, distances))


@given(topologies())
def test_busiest_device_has_the_fewest_possible_gpus(topology):
    choices = [
        [rail.number for rail in rails(topology) if address in rail.gpus]
        for address in list(best_devices(topology))[:5]
    ]
    kept = set(list(best_devices(topology))[:5])
    smaller = replace(topology, gpus=tuple(one for one in topology.gpus if one.pci_address in kept))
    least = min(max(Counter(choice).values(), default=0) for choice in product(*choices))
    assert max(Counter(best(smaller)).values(), default=0) == least


@given(topologies(), st.randoms(use_true_random=False))
def test_device_names_and_order_do_not_change_rails(topology, random):
    names = [one.name for one in topology.rdma_devices]
    random.shuffle(names)
    renamed = [replace(one, name=name) for one, name in zip(topology.rdma_devices, names, strict=True)]
    gpus = list(topology.gpus)
    random.shuffle(renamed)
    random.shuffle(gpus)
    other = replace(topology, gpus=tuple(gpus), rdma_devices=tuple(renamed))

    def facts(machine):
        listed = [(rail.device.pci_address, rail.gpus, rail.distance) for rail in rails(machine)]
        return listed, {gpu: device.pci_address for gpu, device in best_devices(machine).items()}

    assert facts(other) == facts(topology)
