"""The picture's geometry: everything once, nothing on top of anything else, text inside its box."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Gpu, Nic, NodeTopology, Nvme
from numaforge.planning.plan import NodePlan
from numaforge.report.boxes import broken, fitted, text_width
from numaforge.report.layout import lay_out, topology_of
from tests.fixtures import machines
from tests.fixtures.boxes import misplaced, of_kind, overflowing, walk
from tests.fixtures.plans import planned


def with_drives() -> NodeTopology:
    """Return a machine with a drive beside a GPU below its switch, and one on a NUMA node of its own."""
    machine = machines.dgx_h100()
    beside = Nvme("0000:1c:00.0", "nvme", 0)
    path = (*machine.pci_paths["0000:1b:00.0"][:-1], beside.pci_address)
    drives = (beside, Nvme("0000:e5:00.0", "nvme", 1))
    return replace(machine, nvmes=drives, pci_paths={**machine.pci_paths, beside.pci_address: path})


MACHINES = {
    "two CPUs": machines.two_cpu_vm(),
    "laptop with efficiency cores": machines.laptop(),
    "16 CPUs on 4 NUMA nodes": machines.lab_node(),
    "DGX H100": machines.dgx_h100(),
    "EPYC with an L3 per 8 cores": machines.epyc_nps4(),
    "memory-only NUMA nodes": machines.grace_memory_only(),
    "512 CPUs on 16 NUMA nodes": machines.big_512(),
    "switches below switches": machines.hgx_a100(),
    "bridges between GPUs": machines.nvlink_bridges(pairs=2),
    "GPU memory as NUMA nodes": machines.gb200_nvl72_tray(),
    "partitioned GPUs": machines.mi300x_cpx(),
    "64 partitions": machines.mi300x_cpx_kfd(),
    "GPUs in two hives": machines.mi210(),
    "four GPUs with 36 NUMA nodes": machines.quad_gh200(),
    "L3 caches as NUMA nodes": machines.epyc_l3_gpu(),
    "a GPU without a NUMA node": machines.gb10(),
    "accelerators": machines.gaudi2(),
    "management functions": machines.hgx_b200(),
    "drives": with_drives(),
}


@pytest.mark.parametrize("topology", MACHINES.values(), ids=MACHINES)
def test_machine_is_drawn_whole_without_overlaps_and_as_planned(topology):
    check_drawn_whole(topology)
    if len(topology.cores) == 1:
        return
    chosen = plan(topology)
    root = lay_out(topology, chosen).root
    drawn = {
        kind: {int(thread.data["cpu"]) for thread in of_kind(root, kind) if "cpu" in thread.data}
        for kind in ("cpu-reserved", "cpu-allocatable", "cpu")
    }
    cpus = chosen.cpus
    assert drawn == {"cpu-reserved": cpus.reserved, "cpu-allocatable": cpus.allocatable, "cpu": set()}


def check_drawn_whole(topology: NodeTopology) -> None:
    root = lay_out(topology).root
    assert sorted(int(thread.data["cpu"]) for thread in of_kind(root, "thread")) == sorted(topology.online)
    assert misplaced(root) == []
    assert overflowing(root) == []


def plan(topology: NodeTopology, **profile: object) -> NodePlan:
    return planned(replace(topology, kubelet=None), **profile)


def titles(topology: NodeTopology, kind: str) -> list[str]:
    return [box.title for box in of_kind(lay_out(topology).root, kind) if box.title]


def test_long_cpu_list_in_the_heading_is_wrapped_not_cut():
    odd = frozenset(range(1, 32, 2))
    machine = machines.machine(packages=2, cores_per_numa_node=16, threads=1, isolated=odd)
    heading = next(box for box in walk(lay_out(machine).root) if "heading" in box.kinds)
    words = "".join(text.content for text in heading.texts).replace(" ", "")
    assert ",".join(map(str, sorted(odd))) in words


@given(st.text(" ,0123456789", max_size=80), st.floats(30, 300))
def test_wrapped_text_loses_nothing_and_fits(text, width):
    lines = broken(text, width, 10)
    assert all(text_width(line, 10) <= width for line in lines)
    if "…" not in "".join(lines):
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@st.composite
def shapes(draw) -> NodeTopology:
    packages, nodes, cores = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(2, 20))
    where = st.one_of(st.none(), st.integers(0, packages * nodes - 1))
    names = st.text(st.characters(codec="utf-8"), max_size=60)
    ends = st.sampled_from(["switch", "0000:00:00.0", "0000:01:00.0"])
    peers = st.dictionaries(ends, st.integers(1, 18), max_size=3)
    hives, fabrics = st.sampled_from([None, "1", "2"]), st.sampled_from([None, "cluster.1"])
    gpus = [
        Gpu(
            f"0000:{place:02x}:00.0",
            "10de",
            "2330",
            draw(where),
            name=draw(names),
            nvlink_peers=draw(peers),
            fabric=draw(fabrics),
            xgmi_hive=draw(hives),
        )
        for place in range(draw(st.integers(0, 20)))
    ]
    nics = [
        Nic(f"0000:{0x80 + place:02x}:00.0", draw(names), None, None, draw(names), None, draw(where))
        for place in range(draw(st.integers(0, 9)))
    ]
    ports = st.lists(st.sampled_from(["0000:e0:00.0", "0000:e1:00.0"]), max_size=6)
    addresses = [device.pci_address for device in (*gpus, *nics)]
    return machines.machine(
        packages=packages,
        numa_nodes_per_package=nodes,
        cores_per_numa_node=cores,
        threads=draw(st.sampled_from([1, 2, 4, 8])),
        siblings=draw(st.sampled_from(["far", "near"])),
        cores_per_l3=draw(st.sampled_from([None, 1, 2, cores])),
        numa_memory_bytes=draw(st.integers(1, 2**42)),
        hostname=draw(names),
        gpus=gpus,
        nics=nics,
        pci_paths={end: ("pci0000:d0", "0000:d0:01.0", *draw(ports), end) for end in addresses},
    )


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shapes())
def test_every_shape_is_drawn_whole_and_without_overlaps(topology):
    check_drawn_whole(topology)


@pytest.mark.parametrize(
    "cores",
    [pytest.param(128, id="256 CPUs on one NUMA node"), pytest.param(1024, id="2048 CPUs, without numbers")],
)
def test_large_numa_nodes_keep_a_shape_that_fits_a_screen(cores):
    root = lay_out(machines.machine(packages=2, cores_per_numa_node=cores)).root
    assert 0.7 < root.width / root.height < 3


@pytest.mark.parametrize("build", [machines.dgx_h100, machines.hgx_a100])
def test_devices_stand_in_the_box_of_their_numa_node(build):
    devices = (*build().gpus, *build().nics)
    for node in of_kind(lay_out(build()).root, "numa-node"):
        shown = [device.title for device in of_kind(node, "device")]
        expected = [each.pci_address for each in devices if str(each.numa_node) == node.data["numa-node"]]
        assert all(any(address in title for title in shown) for address in expected)
        assert len(shown) == len(expected)


@pytest.mark.parametrize(
    ("topology", "inside"),
    [
        pytest.param(machines.lab_node(), False, id="outside-of-several"),
        pytest.param(machines.two_cpu_vm(), True, id="on-the-only-one"),
    ],
)
def test_devices_of_unknown_numa_node_go_to_the_only_node_or_outside(topology, inside):
    gpu = Gpu("0000:01:00.0", "10de", "2330", numa_node=None)
    root = lay_out(replace(topology, gpus=(gpu,))).root
    assert len(of_kind(root, "gpu")) == 2  # the device and its swatch in the legend
    assert any(of_kind(node, "gpu") for node in of_kind(root, "numa-node")) == inside


def test_gpu_and_nic_on_one_switch_share_a_box():
    topology = machines.dgx_h100()
    boxes = of_kind(lay_out(topology).root, "pcie-switch")
    drawn = [[device.title.split()[0] for device in of_kind(box, "device")] for box in boxes if box.title]
    assert drawn == [[f"GPU{place}", f"mlx5_{place}"] for place in range(8)]


def test_nested_switch_is_a_nested_box():
    outer = next(box for box in of_kind(lay_out(machines.hgx_a100()).root, "pcie-switch") if box.title)
    (inner,) = of_kind(outer, "pcie-switch")[1:]
    assert (len(of_kind(outer, "device")), len(of_kind(inner, "device"))) == (4, 2)


FABRIC = "NVSwitch · also to other hosts of the fabric"
LINKS = {
    "a line from every GPU to the switch": (machines.dgx_h100(), ["NVSwitch"], 8),
    "a line for every bridge": (machines.nvlink_bridges(pairs=2), [], 2),
    "a bar for the hive": (machines.mi300x(), ["XGMI"], 8),
    "a fabric reaches beyond the host": (machines.gb200_nvl72_tray(), [FABRIC], 4),
    "nothing where no links are known": (machines.epyc_gpu(), [], 0),
}


@pytest.mark.parametrize(("topology", "switches", "lines"), LINKS.values(), ids=LINKS)
def test_gpu_links_are_drawn_directly_or_through_a_switch(topology, switches, lines):
    boxes = lay_out(topology).root.children
    machine = next(box for box in boxes if not box.texts and "legend" not in box.kinds)
    assert [box.texts[0].content for box in of_kind(machine, "gpu-switch")] == switches
    assert len(of_kind(machine, "gpu-link")) == lines


SHARED = [f"mlx5_{n} PXB GPU{n // 2 * 2} GPU{n // 2 * 2 + 1}" for n in range(8)]
RAILS = {
    "one-gpu-each": (machines.hgx_b200(), [f"mlx5_{n} PIX GPU{n}" for n in range(8)]),
    "two-gpus-and-two-nics": (machines.hgx_a100(), SHARED),
    "one-nic-for-all": (machines.nvlink_bridges(), ["mlx5_0 PHB GPU0 GPU1"]),
    "no-rdma": (machines.epyc_gpu(), []),
}


@pytest.mark.parametrize(("topology", "drawn"), RAILS.values(), ids=RAILS)
def test_rails_are_lines_from_devices_to_their_gpus(topology, drawn):
    told = [title.split(" · ") for title in titles(topology, "rail-link")]
    assert [" ".join(words[1:]) for words in told] == drawn
    assert [words[0] for words in told] == [f"rail {number}" for number in range(len(drawn))]


OF_GPUS = "of GPUs, without memory"


def test_empty_numa_nodes_share_a_box_and_those_without_a_gpu_another():
    shown = titles(machines.gb200_nvl72_tray(), "numa-node")
    assert f"NUMA nodes 3-9,11-17,19-25,27-33: 28 {OF_GPUS}" in shown
    assert len(shown) == 2 + 4 + 1
    tray = machines.gb200_cdmm()
    shown = titles(tray, "numa-node")
    assert f"NUMA nodes 2-33: 32 {OF_GPUS}" in shown
    assert len(shown) == 2 + 1
    nodes = tuple(replace(node, generic_initiator=node.id < 33 and not node.cpus) for node in tray.numa_nodes)
    shown = titles(replace(tray, numa_nodes=nodes), "numa-node")
    assert shown[-2:] == [f"NUMA nodes 2-32: 31 {OF_GPUS}", "NUMA nodes 33: no CPUs, no memory"]


def test_numa_node_of_gpu_memory_names_its_gpu():
    nodes = of_kind(lay_out(machines.gb200_nvl72_tray()).root, "numa-node")[2:6]
    told = {node.data["numa-node"]: node.children[0].texts[1].content for node in nodes}
    assert told == {str(2 + 8 * number): f"memory of GPU{number}" for number in range(4)}


def test_numa_node_spanning_packages_joins_their_boxes():
    topology = machines.machine(packages=2, cores_per_numa_node=2)
    (first, second) = topology.numa_nodes
    spanning = replace(topology, numa_nodes=(replace(first, cpus=first.cpus | second.cpus),))
    (package,) = of_kind(lay_out(spanning).root, "package")
    assert package.title == "Packages 0, 1"


def test_l3_group_larger_than_its_numa_node_is_drawn_as_a_part():
    topology = machines.machine(packages=1, numa_nodes_per_package=2, cores_per_numa_node=2)
    groups = of_kind(lay_out(topology).root, "l3")
    assert [group.title.split(" · ")[0] for group in groups] == ["part of an L3 32 MiB"] * 2


def test_memory_bar_shows_the_planned_split_of_the_numa_node():
    memory = {"kube_reserved": "256Mi", "system_reserved": "256Mi"}
    pages = [{"size": "2Mi", "count_per_numa_node": 256}]
    chosen = plan(machines.lab_node(), memory=memory, hugepages=pages)
    node = of_kind(lay_out(machines.lab_node(), chosen).root, "numa-node")[0]
    (bar,) = of_kind(node, "bar")
    shares = {part.kinds[1]: part.width / bar.width for part in bar.children}
    numa = chosen.memory.numa_nodes[0]
    assert shares["memory-hugepages-2Mi"] == pytest.approx(512 * 2**20 / numa.memory_bytes, rel=0.01)
    reserved = numa.reserved_memory_bytes / numa.memory_bytes
    assert shares["memory-reserved"] == pytest.approx(reserved, rel=0.01)
    assert sum(shares.values()) == pytest.approx(1)


def test_tiny_part_is_still_drawn():
    topology = machines.dgx_h100()
    chosen = plan(topology, hugepages=[{"size": "2Mi", "count_per_numa_node": 1}])
    parts = of_kind(lay_out(topology, chosen).root, "bar-part")
    assert [part.width for part in parts if "memory-hugepages-2Mi" in part.kinds] == [3.0, 3.0]


def test_plan_for_other_cpus_is_refused():
    with pytest.raises(PlanError, match=r"is for the CPUs 0-15, the machine has 0-1 online"):
        lay_out(machines.two_cpu_vm(), plan(machines.lab_node()))


def test_plan_without_a_machine_shows_numa_nodes_and_cpus():
    chosen = plan(machines.lab_node())
    root = lay_out(topology_of(chosen), chosen).root
    assert len(of_kind(root, "numa-node")) == 4
    assert {int(thread.data["cpu"]) for thread in of_kind(root, "thread")} == chosen.cpus.online


TEXTS = {
    "the first that fits": (["long text", "short"], 1000, "long text"),
    "a shorter one where the first does not": (["a very long text indeed", "short"], 40, "short"),
    "else cut after a whole part": (["0-1,4-5,8-9"], text_width("0-1,4-5…", 10), "0-1,4-5…"),
    "nothing where nothing fits": (["anything"], 0, ""),
}


@pytest.mark.parametrize(("candidates", "width", "expected"), TEXTS.values(), ids=TEXTS)
def test_first_text_that_fits_is_chosen_else_cut(candidates, width, expected):
    assert fitted(candidates, width, 10) == expected


def test_drives_are_drawn_below_their_switch_and_named_in_the_legend() -> None:
    picture = lay_out(with_drives()).root
    assert [box.title for box in of_kind(picture, "nvme") if box.title] == [
        "NVMe · 0000:1c:00.0",
        "NVMe · 0000:e5:00.0",
    ]
    switches = [box for box in of_kind(picture, "pcie-switch") if of_kind(box, "nvme")]
    assert [(box.title or "").rpartition(": ")[2] for box in switches] == ["3 devices"]
    assert any("NVMe drive" in text.content for box in walk(picture) for text in box.texts)


def test_pair_and_four_with_the_most_nvlinks_are_named() -> None:
    texts = [text.content for box in walk(lay_out(machines.dgx_1v()).root) for text in box.texts]
    assert "4 GPUs of one NUMA node with the most NVLinks (9): GPU0-GPU3, GPU4-GPU7" in texts
