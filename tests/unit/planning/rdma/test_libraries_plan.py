"""What libraries are told of the rails: what the machine shows, and nothing where it shows nothing."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import PlanError, ProfileError
from numaforge.machine.topology.model import NodeTopology, RdmaDevice
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.rdma.environment import environment
from numaforge.roles.rdma.libraries import plan_libraries
from numaforge.roles.rdma.planned import LibrariesPlan
from tests.fixtures.machines import lab_node, mi300x
from tests.fixtures.plans import after, notices, planned, refusal
from tests.fixtures.rdma_machines import (
    ACTIVE,
    CLOSED_MODULE,
    NETWORKS,
    OPEN_MODULE,
    PEERMEM,
    dgx,
    storage_nic,
    with_gpus,
)

ALL_RAILS = ",".join(f"mlx5_{number}:1" for number in range(8))


def plan(topology: NodeTopology, **libraries: Any) -> NodePlan:
    return planned(topology, rdma={"libraries": {"nccl_conf": True, **libraries}})


def refused(topology: NodeTopology, **libraries: Any) -> str:
    return refusal(topology, rdma={"libraries": {"nccl_conf": True, **libraries}})


def told(topology: NodeTopology, **libraries: Any) -> dict[str, str]:
    return environment(plan(topology, **libraries).rdma.libraries)


OURS = {
    "rail-down", "rail-unknown", "no-rails", "pci-tree-hidden", "device-on-no-rail", "no-default-route",
    "gdr-level-left", "vllm-mapping-left", "nccl-conf-kept", "nccl-gid-index-pinned",
}  # fmt: skip


def noticed(plan: NodePlan) -> set[str]:
    return OURS & {*notices(plan)}


def test_profile_without_libraries_sets_no_variables():
    planned = plan_node(dgx(nccl_conf="NCCL_DEBUG=WARN\n"), load_profile({"name": "none"}))
    assert planned.rdma.libraries == loads(dumps(planned)).rdma.libraries
    assert environment(planned.rdma.libraries) == {}
    assert "/etc/nccl.conf" not in [file.path for file in planned.files]


def test_dgx_h100_gets_its_expected_values():
    planned = plan(dgx(), ucx=True, nvshmem=True)
    assert environment(planned.rdma.libraries) == {
        "NCCL_IB_HCA": f"={ALL_RAILS}",
        "NCCL_SOCKET_IFNAME": "=bond0",
        "NVSHMEM_ENABLE_NIC_PE_MAPPING": "1",
        "NVSHMEM_HCA_LIST": ALL_RAILS,
        "UCX_NET_DEVICES": ALL_RAILS,
    }
    assert noticed(planned) == set()


def test_every_value_has_its_decision():
    planned = plan(dgx(), ucx=True, nvshmem=True, nccl={"NCCL_IB_TIMEOUT": 22}, topology_file="/opt/topo.xml")
    decided = {
        one.subject.removeprefix("rdma.libraries."): one.value
        for one in planned.decisions
        if one.subject.startswith("rdma.libraries.")
    }
    assert decided == environment(planned.rdma.libraries) | {"NCCL_NET_GDR_LEVEL": "NCCL's default"}


INTERFACES = {
    "default-route": "=bond0",
    "cni0": "=cni0",
    "ibp24s0": "=ibp24s0",
    "10.10.0.0/16": "=bond0",
    "10.0.0.0/9": "=bond0",
    "10.244.0.0/16": "=cni0",
}


@pytest.mark.parametrize(("wanted", "interface"), INTERFACES.items())
def test_socket_interface_is_set_by_name_network_or_default_route(wanted, interface):
    assert told(dgx(), socket_interface=wanted)["NCCL_SOCKET_IFNAME"] == interface


def test_no_socket_interface_is_set_without_a_default_route():
    planned = plan(replace(dgx(), networks=()))
    assert "NCCL_SOCKET_IFNAME" not in environment(planned.rdma.libraries)
    assert noticed(planned) == {"no-default-route"}


MANAGEMENT = RdmaDevice("mlx5_9", "0000:06:00.0", None, "mlx5_core", 0, ports=ACTIVE, management=True)
OF_A_NIC = {"ports": ACTIVE, "physical_function": "0000:18:00.0"}


FUNCTION = RdmaDevice("mlx5_10", "0000:18:00.1", None, "mlx5_core", 0, **OF_A_NIC)
SOFTWARE = replace(lab_node(), rdma_devices=(RdmaDevice("rxe0", None, "eth1", None, 0, ports=ACTIVE),))
STORAGE = dgx(more=[storage_nic()])
WITHOUT_THE_THIRD = ALL_RAILS.replace("mlx5_3:1,", "")
UNKNOWN = with_gpus([(None, None)], [(None, None)])
DEVICES = {
    "rails in the order of their GPUs": (dgx(), {}, ALL_RAILS, set()),
    "a port that is down is left out": (dgx(down=["mlx5_3"]), {}, WITHOUT_THE_THIRD, {"rail-down"}),
    "storage NICs are left out": (STORAGE, {}, ALL_RAILS, {"device-on-no-rail"}),
    "storage NICs on request": (STORAGE, {"more_devices": ["mlx5_8"]}, f"{ALL_RAILS},mlx5_8:1", set()),
    "NVSwitch management never": (dgx(more=[MANAGEMENT]), {}, ALL_RAILS, set()),
    "virtual functions not beside their NIC": (dgx(more=[FUNCTION]), {}, ALL_RAILS, set()),
    "every device without a GPU": (SOFTWARE, {"socket_interface": "eth1"}, "rxe0:1", set()),
    "nothing where distances are unknown": (UNKNOWN, {}, None, {"rail-unknown", "no-rails"}),
}


@pytest.mark.parametrize(("machine", "libraries", "expected", "said"), DEVICES.values(), ids=DEVICES)
def test_nccl_gets_its_devices(machine, libraries, expected, said):
    planned = plan(machine, **libraries)
    found = environment(planned.rdma.libraries).get("NCCL_IB_HCA")
    assert found == (None if expected is None else f"={expected}")
    assert noticed(planned) == said


NEAR, FAR, OTHER_ROOT = [("pci0000:00", 0)], [("pci0000:80", 1)], [("pci0000:10", 0)]


def opened(gpus: list, nics: list) -> NodeTopology:
    return with_gpus(gpus, nics, nvidia_install=OPEN_MODULE)


LEVELS = {
    "PXB is NCCL's default and is not written": (dgx(), None, set()),
    "PHB where a GPU has no nearer device": (opened(NEAR, NEAR), "PHB", set()),
    "NODE is NCCL's PHB": (opened(NEAR, OTHER_ROOT), "PHB", set()),
    "SYS where the device is on the other NUMA node": (opened(NEAR, FAR), "SYS", set()),
    "the farthest GPU counts": (with_gpus([*NEAR, *FAR], NEAR, nvidia_install=PEERMEM), "SYS", set()),
    "not raised without GPUDirect": (
        with_gpus(NEAR, NEAR, nvidia_install=CLOSED_MODULE),
        None,
        {"gdr-level-left"},
    ),
    "not raised where the driver is unknown": (with_gpus(NEAR, NEAR), None, {"gdr-level-left"}),
    "not raised where a distance is unknown": (opened([*NEAR, (None, None)], NEAR), None, {"rail-unknown"}),
}


@pytest.mark.parametrize(("machine", "level", "said"), LEVELS.values(), ids=LEVELS)
def test_gpudirect_level_follows_the_topology(machine, level, said):
    planned = plan(machine)
    assert environment(planned.rdma.libraries).get("NCCL_NET_GDR_LEVEL") == level
    assert noticed(planned) == said


def test_gdr_level_is_not_set_where_gpus_are_attached_to_their_cpus():
    built = opened(NEAR, NEAR)
    grace = replace(built, gpus=tuple(replace(gpu, addressing_mode="ats") for gpu in built.gpus))
    assert "NCCL_NET_GDR_LEVEL" not in told(grace)
    assert told(grace, gdr_level="PHB")["NCCL_NET_GDR_LEVEL"] == "PHB"


PAIRS = [("pci0000:00", 0), ("pci0000:00", 0), ("pci0000:80", 1), ("pci0000:80", 1)]
TWO_NICS = [("pci0000:00", 0), ("pci0000:80", 1)]


@pytest.mark.parametrize(
    ("nics", "expected"),
    [
        pytest.param(TWO_NICS, ("PE_MAPPING", "mlx5_0:1:2,mlx5_1:1:2"), id="GPUs of one port are counted"),
        pytest.param(PAIRS, ("LIST", "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"), id="those of two take turns"),
    ],
)
def test_nvshmem_mapping_shares_ports_between_gpus(nics, expected):
    variables = told(with_gpus(PAIRS, nics), nvshmem=True)
    (shared,) = ((name, value) for name, value in variables.items() if name.startswith("NVSHMEM_HCA"))
    assert shared == (f"NVSHMEM_HCA_{expected[0]}", expected[1])


def test_vllm_gets_gpu_nic_pairs_in_place_of_device_lists():
    variables = told(dgx(), vllm=True, ucx=True, nvshmem=True)
    pairs = variables.pop("VLLM_GPU_NIC_PCIE_MAPPING").split(",")
    assert pairs[0] == "0000:1b:00.0=0000:18:00.0"
    assert len(pairs) == 8
    assert variables == {
        "NCCL_IB_HCA": f"={ALL_RAILS}",
        "NCCL_SOCKET_IFNAME": "=bond0",
        "NVSHMEM_ENABLE_NIC_PE_MAPPING": "1",
        "VLLM_NIC_SELECTION_VARS": "UCX_NET_DEVICES:1,NVSHMEM_HCA_LIST:1",
    }


def test_vllm_mapping_is_left_out_when_a_worker_would_not_start():
    planned = plan(dgx(down=["mlx5_3"]), vllm=True, ucx=True)
    assert noticed(planned) == {"rail-down", "vllm-mapping-left"}
    assert "VLLM_NIC_SELECTION_VARS" not in environment(planned.rdma.libraries)
    assert "UCX_NET_DEVICES" in environment(planned.rdma.libraries)


def test_single_gpu_process_gets_its_own_ports():
    libraries = plan(dgx(), vllm=True).rdma.libraries
    assert environment(libraries, "overlay", 3) == {
        "NCCL_IB_HCA": "=mlx5_3:1",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NVSHMEM_ENABLE_NIC_PE_MAPPING": "1",
        "NVSHMEM_HCA_LIST": "mlx5_3:1",
        "UCX_NET_DEVICES": "mlx5_3:1",
    }
    with pytest.raises(PlanError, match="no RDMA port is known for GPU 8"):
        environment(libraries, gpu=8)


# ---- virtual machines ----


def guest() -> NodeTopology:
    built = opened([*NEAR, *NEAR], [*NEAR, *NEAR])
    return replace(built, gpus=tuple(replace(gpu, virtualization="passthrough") for gpu in built.gpus))


def test_guest_with_hidden_pci_tree_gets_no_mapping_per_gpu():
    planned = plan(guest(), vllm=True, ucx=True)
    variables = environment(planned.rdma.libraries)
    assert variables["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"
    assert variables["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"
    assert not {"NCCL_NET_GDR_LEVEL", "VLLM_GPU_NIC_PCIE_MAPPING"} & variables.keys()
    assert noticed(planned) == {"pci-tree-hidden", "vllm-mapping-left"}


def below(*devices: str, **more: Any) -> dict[str, Any]:
    """Return a switch that the provider names."""
    return {"devices": [*devices], **more}


def test_switches_named_by_the_provider_make_rails():
    switches = [below("0000:01:00.0", "0000:82:00.0"), below("0000:02:00.0", "0000:81:00.0")]
    planned = plan(guest(), pcie_switches=switches)
    assert [rail.ports for rail in planned.rdma.libraries.gpus] == [("mlx5_1:1",), ("mlx5_0:1",)]
    variables = environment(planned.rdma.libraries)
    assert variables["NCCL_TOPO_FILE"] == "/etc/numaforge/nccl-topology.xml"
    assert variables["NCCL_IB_HCA"] == "=mlx5_1:1,mlx5_0:1"
    assert "NCCL_NET_GDR_LEVEL" not in variables
    assert noticed(planned) == set()
    first = plan(guest(), pcie_switches=switches[:1])
    assert [rail.gpu for rail in first.rdma.libraries.gpus] == ["GPU0"]
    assert noticed(first) == {"rail-unknown", "device-on-no-rail"}


def test_switch_needs_its_numa_node_when_the_kernel_reports_none():
    switch = below("0000:01:00.0", "0000:81:00.0")
    assert "the kernel does not know its NUMA node" in refused(UNKNOWN, pcie_switches=[switch])
    planned = plan(UNKNOWN, pcie_switches=[switch | {"numa_node": 1}])
    assert planned.rdma.libraries.hidden_switches[0].numa_node == 1


CR = dgx(nccl_conf="NCCL_DEBUG=WARN\r\n")
UNREAD = replace(dgx(), unreadable=("/etc/nccl.conf",))
STRANGE = below("0000:01:00.0", "0000:99:00.0")
ON_NODE_7 = below("0000:01:00.0", "0000:81:00.0", numa_node=7)
REFUSED = {
    "no such interface": (dgx(), {"socket_interface": "eth7"}, "there is no interface eth7"),
    "no such network": (dgx(), {"socket_interface": "192.168.0.0/16"}, "no interface is in 192.168.0.0/16"),
    "several": (dgx(), {"socket_interface": "10.0.0.0/8"}, "bond0, cni0 are all in 10.0.0.0/8"),
    "no such device": (dgx(), {"more_devices": ["mlx5_77"]}, "mlx5_77"),
    "NVSwitch management": (dgx(more=[MANAGEMENT]), {"more_devices": ["mlx5_9"]}, "mlx5_9"),
    "no such function": (guest(), {"pcie_switches": [STRANGE]}, "no GPU and no RDMA device at 0000:99:00.0"),
    "no such NUMA node": (guest(), {"pcie_switches": [ON_NODE_7]}, "no NUMA node 7"),
    "the admin's interface": (dgx(nccl_conf="NCCL_SOCKET_IFNAME=eth0\n"), {}, "IFNAME=eth0, planned"),
    "the admin's devices": (dgx(nccl_conf="NCCL_IB_HCA=mlx5\n"), {}, "NCCL_IB_HCA=mlx5, planned"),
    "line ends of another system": (CR, {}, "cannot be kept"),
    "a file that was not read": (UNREAD, {}, "would be lost"),
}


@pytest.mark.parametrize(("machine", "libraries", "said"), REFUSED.values(), ids=REFUSED)
def test_impossible_libraries_are_refused(machine, libraries, said):
    assert said in refused(machine, **libraries)


# ---- RCCL, with AMD's GPUs ----


def instinct(*clients: str) -> NodeTopology:
    """Return 8 MI300X, each with a NIC on its switch, whose ports are active."""
    built = mi300x()
    devices = tuple(replace(device, ports=ACTIVE) for device in built.rdma_devices)
    peer_memory = replace(built.peer_memory, clients=clients)
    return replace(built, rdma_devices=devices, networks=NETWORKS, peer_memory=peer_memory)


OF_RAILS = {"NCCL_IB_HCA": f"={ALL_RAILS}", "NCCL_SOCKET_IFNAME": "=bond0"}
BOTH = {"ucx": True, "nvshmem": True}
OWN_WORD = {"nccl": {"NCCL_DMABUF_ENABLE": 0}}
RCCL_VARIABLES = {
    "DMA-BUF-without-a-peer-memory-client": (instinct(), {}, OF_RAILS | {"NCCL_DMABUF_ENABLE": "1"}),
    "nothing-of-NVSHMEM": (instinct("amdkfd"), BOTH, OF_RAILS | {"UCX_NET_DEVICES": ALL_RAILS}),
    "the-profile-s-word-stays": (instinct(), OWN_WORD, OF_RAILS | {"NCCL_DMABUF_ENABLE": "0"}),
}


@pytest.mark.parametrize(("machine", "wish", "variables"), RCCL_VARIABLES.values(), ids=RCCL_VARIABLES)
def test_rccl_gets_only_variables_that_rccl_reads(machine, wish, variables):
    assert told(machine, **wish) == variables


@pytest.mark.parametrize(
    ("machine", "path"),
    [
        pytest.param(dgx(), "/etc/nccl.conf", id="NCCL"),
        pytest.param(instinct(), "/etc/rccl.conf", id="RCCL"),
        pytest.param(
            replace(instinct(), gpus=(*instinct().gpus, dgx().gpus[0])), "/etc/nccl.conf", id="both"
        ),
    ],
)
def test_each_library_has_its_own_file(machine, path):
    planned = plan(machine)
    conf = {"/etc/nccl.conf", "/etc/rccl.conf"}
    assert [file.path for file in planned.files if file.path in conf] == [path]
    assert loads(dumps(planned)).rdma.libraries.conf_path == path


def test_nvidia_only_libraries_are_left_out_with_a_notice():
    planned = plan(instinct(), nvshmem=True, vllm=True)
    assert "nvshmem-left" in notices(planned)
    assert planned.rdma.libraries.variables["VLLM_NIC_SELECTION_VARS"] == "UCX_NET_DEVICES:1"


def test_far_nics_raise_the_rccl_level_only_with_peer_memory():
    for clients, level, left in (((), None, {"gdr-level-left"}), (("amdkfd",), "PHB", set())):
        far = with_gpus([("0000:00", 0)], [("0000:40", 0)])
        gpus = tuple(replace(gpu, vendor="1002", device="740f") for gpu in far.gpus)
        planned = plan(replace(far, gpus=gpus, peer_memory=replace(far.peer_memory, clients=clients)))
        assert environment(planned.rdma.libraries).get("NCCL_NET_GDR_LEVEL") == level
        assert noticed(planned) & {"gdr-level-left"} == left


def test_admins_rccl_conf_is_kept_and_restored():
    machine = replace(instinct(), nccl_conf="NCCL_DEBUG=WARN\n")
    first = plan(machine)
    assert first.rdma.libraries.admin_conf == "NCCL_DEBUG=WARN\n"
    written = replace(after(machine, first), nccl_conf="# Written by numaforge ...\n")
    assert plan(written) == first
    gone = planned(written).rdma.libraries
    assert (gone.conf_path, gone.admin_conf) == ("/etc/rccl.conf", "NCCL_DEBUG=WARN\n")


# ---- /etc/nccl.conf of the admin ----

ADMINS = "# ours since 2023\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME==bond0\n"


def test_nccl_conf_of_the_admin_is_kept_and_restored():
    machine = dgx(nccl_conf=ADMINS)
    first = plan(machine)
    assert first.rdma.libraries.admin_conf == ADMINS
    assert noticed(first) == {"nccl-conf-kept"}
    written = replace(after(machine, first), nccl_conf="# Written by numaforge ...\n")
    assert plan(written) == first
    gone = planned(written)
    assert (gone.rdma.libraries.nccl_conf, gone.rdma.libraries.admin_conf) == (False, ADMINS)
    put_back = after(machine, gone)
    assert planned(put_back) == gone
    changed = replace(put_back, nccl_conf="NCCL_DEBUG=INFO\n")
    assert planned(changed).rdma.libraries.admin_conf is None


def test_admin_settings_survive_a_lost_plan():
    ours = "# Written by numaforge from the profile x.\nNCCL_IB_HCA==mlx5_0:1\n"
    kept = f"{ours}# What the admin has here, and gets back:\nNCCL_DEBUG=WARN\n"
    assert plan(dgx(nccl_conf=ours)).rdma.libraries.admin_conf is None
    assert plan(dgx(nccl_conf=kept)).rdma.libraries.admin_conf == "NCCL_DEBUG=WARN\n"


def test_pinned_gid_index_of_the_admin_gets_a_notice():
    assert "nccl-gid-index-pinned" in noticed(plan(dgx(nccl_conf="NCCL_IB_GID_INDEX=3\n")))


# ---- the section ----


@pytest.mark.parametrize(
    ("libraries", "said"),
    [
        ({"nccl": {"NCCL_IB_GID_INDEX": 3}}, "an index differs from host to host"),
        ({"nccl": {"NCCL_IB_TIMOUT": 22}}, "did you mean NCCL_IB_TIMEOUT"),
        ({"nccl": {"NCCL_TOPOLOGY_FILE": "/etc/topo.xml"}}, "did you mean NCCL_TOPO_FILE"),
        ({"nccl": {"NCCL_GRAPH_DUMP_FILE": "/etc/graph.xml"}}, "user guide; if a plugin or"),
        ({"nccl": {"NCCL_SHARP_ENABLE": 1}}, "user guide; if a plugin or PyTorch reads it"),
        ({"nccl": {"NCCL_BLOCKING_WAIT": 1}}, "PyTorch reads it"),
        ({"nccl": {"NCCL_TREE_THRESHOLD": 0}}, "NCCL no longer reads it"),
        ({"nccl": {"NCCL_HOSTID": "a"}}, "another one for each job or host"),
        ({"nccl": {"NCCL_NET_GDR_READ": "true"}}, "of 'true' its leading digits, else 0"),
        ({"nccl": {"NCCL_BUFFSIZE": "8M"}}, "write a number"),
        ({"nccl": {"NCCL_DEBUG": "DEBUG"}}, "write VERSION, WARN, INFO"),
        ({"nccl": {"NCCL_ALGO": "ring;allreduce:rings"}}, "'allreduce:rings' is not a word"),
        ({"nccl": {"NCCL_P2P_LEVEL": "PCI"}}, "'PCI' is not a word"),
        ({"nccl": {"nccl_debug": "INFO"}}, "did you mean NCCL_DEBUG"),
        ({"nccl": {"NCCL_IB_HCA": "mlx5"}}, "it is made of the rails"),
        ({"nccl": {"NCCL_CONF_FILE": "/x"}}, "NCCL reads it before"),
        ({"nccl": {"NCCL_IB_TC": ""}}, "NCCL reads an empty value as 0"),
        ({"nccl": {"NCCL_IB_TC": "1 2"}}, "without spaces"),
        ({"nccl": {"NCCL_IB_TC": "1\nNCCL_DEBUG=INFO"}}, "without spaces"),
        ({"nccl": {"NCCL_IB_DISABLE": True}}, "is not a value for NCCL"),
        ({"gdr_level": "NODE"}, "NCCL has no level NODE"),
        ({"gdr_level": "near"}, "'near' is not a level"),
        ({"socket_interface": "10.0.0.1/8"}, "is not an interface"),
        ({"socket_interface": "a-name-that-is-too-long"}, "is not an interface"),
        ({"topology_file": "topo.xml"}, "absolute path"),
        ({"pcie_switches": [{"devices": ["0000:01:00.0"]}]}, "devices"),
        ({"pcie_switches": [{"devices": ["1:0.0", "0000:81:00.0"]}]}, "is not a PCI address"),
        (
            {"pcie_switches": [{"devices": ["0000:01:00.0", "0000:81:00.0"]}] * 2},
            "0000:01:00.0 is below two switches",
        ),
        ({"nccl_config": True}, "did you mean nccl_conf"),
    ],
)  # fmt: skip
def test_values_that_no_library_accepts_are_refused(libraries, said):
    with pytest.raises(ProfileError, match=said):
        load_profile({"rdma": {"libraries": libraries}})


@given(
    gpus=st.lists(st.sampled_from([*NEAR, *FAR, ("pci0000:10", 0), (None, None)]), max_size=8),
    nics=st.lists(st.sampled_from([*NEAR, *FAR, ("pci0000:10", 0), (None, None)]), max_size=8),
)
def test_listed_ports_exist_and_are_listed_once(gpus, nics):
    profile = load_profile({"rdma": {"libraries": {"nccl_conf": True, "ucx": True, "nvshmem": True}}})
    libraries = plan_libraries(with_gpus(gpus, nics), profile, LibrariesPlan()).value
    exist = {f"mlx5_{number}:1" for number in range(len(nics))}
    assert len(set(libraries.ports)) == len(libraries.ports)
    assert set(libraries.ports) <= exist
    assert {port for rail in libraries.gpus for port in rail.ports} <= set(libraries.ports)
    assert all(rail.ports for rail in libraries.gpus)
    counted = libraries.variables.get("NVSHMEM_HCA_PE_MAPPING", "")
    if counted:
        assert sum(int(entry.rpartition(":")[2]) for entry in counted.split(",")) == len(libraries.gpus)
