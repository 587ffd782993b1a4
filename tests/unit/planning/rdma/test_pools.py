"""Which RDMA devices pods get together, and by which selectors the shared device plugin finds them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Nic, NodeTopology, RdmaDevice, RdmaPort
from numaforge.planning.document import from_document, to_document
from numaforge.planning.node import plan_node
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import load_profile
from numaforge.roles.rdma.pools import plan_pools
from numaforge.roles.rdma.shared_plugin import plugin_functions, selected
from tests.fixtures.machines import dgx_h100, hgx_a100, machine
from tests.fixtures.plans import refusal
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

ALL = ("umad0", "uverbs0", "issm0")


def wish(**keys) -> NodeProfile:
    return load_profile({"name": "p", "rdma": {"device_plugin": keys}})


def device(name: str, number: int, **changes) -> RdmaDevice:
    known = {"vendor": "15b3", "device": "1021", "character_devices": ALL}
    built = RdmaDevice(name, f"0000:{number:02x}:00.0", f"ib{number}", "mlx5_core", 0, port(), **known)
    return replace(built, **changes)


def port(state: str | None = "ACTIVE", link_layer: str = "InfiniBand") -> tuple[RdmaPort]:
    return (RdmaPort(1, link_layer, state, None),)


def bare_machine(numa_nodes: int = 1) -> NodeTopology:
    return machine(numa_nodes_per_package=numa_nodes, cores_per_numa_node=4)


def with_devices(*devices: RdmaDevice, numa_nodes: int = 1) -> NodeTopology:
    """Return a machine with these RDMA devices, and the network interfaces that they name."""
    nics = tuple(
        Nic(each.pci_address, each.interface, each.name, "InfiniBand", None, each.driver, each.numa_node)
        for each in devices
        if each.pci_address
    )
    return replace(bare_machine(numa_nodes), nics=nics, rdma_devices=devices)


def pools_of(topology: NodeTopology, **keys) -> dict[str, tuple[str, ...]]:
    return {pool.resource: pool.devices for pool in plan_pools(topology, wish(**keys)).value}


def test_dgx_h100_has_a_resource_per_rail():
    pools = plan_pools(dgx_h100(), wish(per="rail")).value
    assert [(pool.resource, len(pool.gpus), pool.tokens) for pool in pools] == [
        (f"rdma/rail{number}", 1, 63) for number in range(8)
    ]


@cases("keys, resources", CASES["groupings"])
def test_resources_are_named_by_their_grouping(keys, resources):
    devices = (device("mlx5_0", 1), device("mlx5_1", 2, numa_node=1), device("mlx5_10", 3, numa_node=1))
    assert list(pools_of(with_devices(*devices, numa_nodes=2), **keys)) == resources


LEFT_OUT = {
    "management functions never": ({"management": True}, {}, "manages NVSwitches"),
    "management functions not even by name": (
        {"management": True},
        {"include": [{"names": ["*"]}]},
        "manages NVSwitches",
    ),
    "no umad": ({"character_devices": ("uverbs1",)}, {}, "it has no umad"),
    "no uverbs": ({"character_devices": ("umad1",)}, {}, "it has no uverbs"),
    "EFA never has umad": ({"driver": "efa", "character_devices": ("uverbs1",)}, {}, "it has no umad"),
    "software devices": ({"pci_address": None}, {}, "software device"),
    "software devices on no PCI function": (
        {"pci_address": None, "interface": "br0"},
        {"software_devices": True},
        "its interface br0 has no PCI function",
    ),
    "virtual functions": ({"physical_function": "0000:99:00.0"}, {}, None),
    "what is excluded by name": ({}, {"exclude": [{"names": ["o*"]}]}, None),
    "what is excluded by interface": ({}, {"exclude": [{"interfaces": ["ib2"]}]}, None),
    "what is not included": ({}, {"include": [{"names": ["mlx5_?"]}]}, None),
    "another driver": ({"driver": "irdma"}, {"include": [{"drivers": ["mlx5_core"]}]}, None),
    "another PCI id": ({"device": "101b"}, {"include": [{"ids": ["15b3:1021"]}]}, None),
    "another link layer": (
        {"ports": port(link_layer="Ethernet")},
        {"include": [{"link_layers": ["InfiniBand"]}]},
        None,
    ),
    "devices without an active port, where the profile says so": (
        {"ports": port("DOWN")},
        {"down_ports": False},
        "none of its ports is active",
    ),
}


@pytest.mark.parametrize(("changes", "keys", "told"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_left_out_devices_are_reported_with_a_reason(changes, keys, told):
    topology = with_devices(device("mlx5_0", 1), device("odd", 2, **changes))
    decided = plan_pools(topology, wish(per="rail", **keys))
    assert [pool.devices for pool in decided.value] == [("mlx5_0",)]
    notices = [notice.message for notice in decided.notices if notice.id == "rdma-device-left-out"]
    assert [told in message for message in notices] == ([True] if told else [])


USABLE = {
    "devices without issm": ({"character_devices": ("umad1", "uverbs1")}, {}),
    "one whose cable is out": ({"ports": port("DOWN")}, {}),
    "one whose port is in no known state": (
        {"ports": port(None)},
        {"down_ports": False},
    ),
    "virtual functions, where the profile says so": (
        {"physical_function": "0000:99:00.0"},
        {"virtual_functions": True},
    ),
    "what one selection fits": ({}, {"include": [{"names": ["mlx*"]}, {"names": ["odd"]}]}),
}


@pytest.mark.parametrize(("changes", "keys"), USABLE.values(), ids=USABLE)
def test_odd_but_usable_device_is_offered(changes, keys):
    topology = with_devices(device("mlx5_0", 1), device("odd", 2, **changes))
    assert len(pools_of(topology, per="device", **keys)) == 2


def test_unknown_character_devices_are_not_noticed():
    decided = plan_pools(with_devices(device("mlx5_0", 1, character_devices=())), wish(per="rail"))
    assert (len(decided.value), decided.notices) == (1, ())


def test_missing_module_is_reported_and_excludes_no_device():
    topology = with_devices(device("mlx5_0", 1, character_devices=("uverbs0",)))
    decided = plan_pools(topology, wish(per="rail"))
    assert [notice.id for notice in decided.notices] == ["rdma-module-missing"]
    assert "until ib_umad is loaded" in decided.notices[0].message
    assert len(decided.value) == 1


EXCLUSIVE = replace(with_devices(device("mlx5_0", 1)), rdma_netns="exclusive")


def with_netns(netns: str) -> NodeProfile:
    return load_profile({"rdma": {"host": {"netns": netns}, "device_plugin": {"per": "rail"}}})


def test_exclusive_network_namespace_is_noticed_unless_shared_and_refused_where_wished():
    assert [each.id for each in plan_pools(EXCLUSIVE, wish(per="rail")).notices] == ["rdma-netns-exclusive"]
    assert plan_pools(EXCLUSIVE, with_netns("shared")).notices == ()
    with pytest.raises(PlanError, match=r"is rail, and rdma\.host\.netns is exclusive") as refused:
        plan_pools(with_devices(device("mlx5_0", 1)), with_netns("exclusive"))
    assert "rdma.host.netns: shared" in (refused.value.remedy or "")
    options = {
        "modules": {"options": {"ib_core": ["netns_mode=0"]}},
        "rdma": {"device_plugin": {"per": "rail"}},
    }
    with pytest.raises(PlanError, match=r"netns_mode of modules\.options\.ib_core is exclusive"):
        plan_pools(with_devices(device("mlx5_0", 1)), load_profile(options))


def test_selection_without_a_match_is_reported():
    decided = plan_pools(with_devices(device("mlx5_0", 1)), wish(per="rail", exclude=[{"names": ["ens*"]}]))
    (notice,) = decided.notices
    assert notice.message == "rdma.device_plugin.exclude[0] fits no device of this machine"


def test_machine_without_devices_has_no_pools_and_gets_a_notice():
    decided = plan_pools(bare_machine(), wish(per="rail", deployed=True))
    assert (decided.value, [each.id for each in decided.notices]) == ((), ["rdma-no-device"])


@pytest.mark.parametrize("name", ["mlx5_0", "mlx5_1", "mlx5_8"])
def test_unplugged_cable_changes_no_resource(name):
    whole = hgx_a100()
    down = {name: port("DOWN")}
    devices = tuple(replace(each, ports=down.get(each.name, each.ports)) for each in whole.rdma_devices)
    unplugged = replace(whole, rdma_devices=devices)
    assert pools_of(unplugged, per="rail") == pools_of(whole, per="rail")


def test_virtual_functions_are_on_the_rail_of_their_physical_function():
    physical = device("mlx5_0", 1), device("mlx5_1", 2)
    virtual = device("mlx5_2", 3, physical_function="0000:02:00.0")
    pools = pools_of(with_devices(*physical, virtual), per="rail", virtual_functions=True)
    assert pools == {"rdma/rail0": ("mlx5_0",), "rdma/rail1": ("mlx5_1", "mlx5_2")}


def test_opted_in_software_device_is_offered_by_its_interface():
    rxe = device("rxe0", 0, pci_address=None, interface="ens10", driver=None, vendor=None, device=None)
    nic = Nic("0000:81:00.0", "ens10", None, "Ethernet", None, "virtio_net", 1)
    topology = replace(bare_machine(), nics=(nic,), rdma_devices=(rxe,))
    (pool,) = plan_pools(topology, wish(per="rail", software_devices=True)).value
    assert (pool.pci_addresses, pool.selectors) == (("0000:81:00.0",), {"ifNames": ("ens10",)})


def test_pool_selects_the_first_interface_that_the_plugin_sees():
    topology = with_devices(device("mlx5_0", 1, interface="eth0np0"))
    (nic,) = topology.nics
    topology = replace(topology, nics=(nic, replace(nic, interface="eth0_rep1")))
    (pool,) = plan_pools(topology, wish(per="rail")).value
    assert pool.selectors == {"ifNames": ("eth0_rep1",)}


def test_device_without_interface_is_selected_by_unique_hardware_ids():
    bare = device("mlx5_1", 2, interface=None, device="101b")
    pools = plan_pools(with_devices(device("mlx5_0", 1), bare), wish(per="rail")).value
    assert [pool.selectors for pool in pools] == [
        {"ifNames": ("ib1",)},
        {"vendors": ("15b3",), "deviceIDs": ("101b",), "drivers": ("mlx5_core",)},
    ]


IMPOSSIBLE_POOLS = {
    "two like devices without interfaces": (
        (device("mlx5_0", 1, interface=None), device("mlx5_1", 2, interface=None)),
        {"per": "rail"},
        "cannot distinguish mlx5_0 from other devices",
    ),
    "a device and a management function that is like it": (
        (device("mlx5_0", 1, interface=None), device("mlx5_1", 2, management=True, interface=None)),
        {"per": "rail"},
        "cannot distinguish mlx5_0 from other devices",
    ),
    "two devices of one PCI function": (
        (device("mlx5_0", 1), device("mlx5_1", 1)),
        {"per": "rail"},
        "rdma/rail0 and rdma/rail1 are to hold devices of one PCI function, 0000:01:00.0",
    ),
    "an unknown NUMA node": (
        (device("mlx5_0", 1, numa_node=None),),
        {"per": "numa_node"},
        "does not report the NUMA node of mlx5_0",
    ),
    "a device's name that is no resource's": (
        (device("mlx5-0", 1),),
        {"per": "device"},
        "the plugin takes no resource 'mlx5-0'",
    ),
}


@pytest.mark.parametrize(("devices", "keys", "said"), IMPOSSIBLE_POOLS.values(), ids=IMPOSSIBLE_POOLS)
def test_impossible_pools_are_refused_with_a_remedy(devices, keys, said):
    with pytest.raises(PlanError) as refused:
        plan_pools(with_devices(*devices, numa_nodes=2), wish(**keys))
    assert said in refused.value.message
    assert refused.value.where.startswith("rdma.device_plugin")
    assert refused.value.remedy


@cases("keys, said", CASES["invalid_sections"])
def test_invalid_device_plugin_profile_is_refused(keys, said):
    message = refusal(dgx_h100(), rdma={"device_plugin": keys})
    assert said in message
    assert "rdma.device_plugin" in message


def test_plan_predicts_resources_and_label_of_a_deployed_plugin_alone():
    plan = plan_node(dgx_h100(), wish(per="numa_node", deployed=True), "1.36.1")
    resources = {k: v for k, v in plan.allocatable.devices.items() if k.startswith("rdma/")}
    assert resources == {"rdma/numa0": 63, "rdma/numa1": 63}
    assert list(plan.labels) == ["numaforge.io/rdma-pools"]
    assert from_document(to_document(plan)) == plan
    plan = plan_node(dgx_h100(), wish(per="rail"), "1.36.1")
    assert (len(plan.rdma.pools), plan.allocatable.devices, plan.labels) == (8, {}, {})


@st.composite
def fabrics(draw: st.DrawFn) -> NodeTopology:
    """Draw RDMA devices: some without interfaces, of several kinds, near several NUMA nodes, or unknown."""
    devices = [
        device(
            f"mlx5_{number}",
            number,
            numa_node=draw(st.integers(0, 1)),
            interface=draw(st.sampled_from((f"ib{number}", f"ib{number}", None))),
            device=draw(st.sampled_from(("1021", "101b"))),
            management=draw(st.booleans()) and draw(st.booleans()),
            character_devices=draw(st.sampled_from((ALL, ALL, ("uverbs0",)))),
        )
        for number in range(draw(st.integers(1, 8)))
    ]
    return with_devices(*devices, numa_nodes=2)


@given(topology=fabrics(), per=st.sampled_from(("rail", "numa_node", "device", "machine")))
def test_every_device_is_in_exactly_one_pool_with_exact_selectors(topology, per):
    try:
        decided = plan_pools(topology, wish(per=per))
    except PlanError:
        assert any(each.interface is None for each in topology.rdma_devices)
        return
    held = [name for pool in decided.value for name in pool.devices]
    named = [n.message.partition(" ")[0] for n in decided.notices if n.id == "rdma-device-left-out"]
    assert sorted([*held, *named]) == sorted(each.name for each in topology.rdma_devices)
    functions = plugin_functions(topology).values()
    for pool in decided.value:
        assert tuple(each.address for each in selected(functions, pool.selectors)) == pool.pci_addresses
        assert len(pool.devices) == 1 or per in ("numa_node", "machine")


@pytest.mark.parametrize("per", ["rail", "numa_node", "device", "machine"])
def test_hgx_a100_with_storage_nics_has_every_device_in_one_pool(per):
    held = [name for names in pools_of(hgx_a100(), per=per).values() for name in names]
    assert sorted(held) == sorted(f"mlx5_{number}" for number in range(10))
