"""The virtual node is the machine that numaforge is made for."""

import json

import pytest

GPU_NUMA_NODES = {
    "0000:21:00.0": 0,
    "0000:22:00.0": 0,
    "0000:41:00.0": 1,
    "0000:42:00.0": 1,
    "0000:61:00.0": 2,
    "0000:62:00.0": 2,
    "0000:81:00.0": 3,
    "0000:82:00.0": 3,
}


@pytest.fixture(scope="module")
def node(lab):
    """The large node, put back as it was when first Ready."""
    lab.reset()
    return lab.nodes[0]


def test_numa_distances_separate_packages(node):
    rows = node.run("cat /sys/devices/system/node/node*/distance").splitlines()
    assert rows == ["10 12 21 21", "12 10 21 21", "21 21 10 12", "21 21 12 10"]


@pytest.mark.parametrize("governor", ["performance", "schedutil", "ondemand", "powersave"])
def test_cpufreq_governor_can_be_set(node, governor):
    policy = "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"
    before = node.run(f"cat {policy}")
    assert (
        node.run(f"echo {governor} >{policy}; cat {policy}; echo {before.strip()} >{policy}").strip()
        == governor
    )


def test_placeholders_read_as_gpus_on_their_numa_nodes(node):
    script = "cd /sys/bus/pci/devices; for d in *; do echo $d $(cat $d/vendor $d/class $d/numa_node); done"
    devices = [line.split() for line in node.run(script).splitlines()]
    gpus = {
        address: int(numa_node)
        for address, vendor, device_class, numa_node in devices
        if (vendor, device_class) == ("0x10de", "0x030200")
    }
    assert gpus == GPU_NUMA_NODES


def test_the_rdma_device_belongs_to_a_nic_on_numa_node_two(node):
    link = json.loads(node.run("rdma -j link show rxe0/1"))[0]
    assert link["state"] == "ACTIVE"
    assert node.run(f"cat /sys/class/net/{link['netdev']}/device/../numa_node").strip() == "2"


def test_the_kubelet_is_started_as_kubeadm_starts_it(node):
    command_line = node.run("tr '\\0' ' ' </proc/$(systemctl show -P MainPID kubelet)/cmdline").split()
    assert command_line == [
        "/usr/bin/kubelet",
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--config=/var/lib/kubelet/config.yaml",
    ]


@pytest.mark.parametrize(("user", "allowed"), [("root", True), ("admin", True), ("lab", False)])
def test_only_root_and_admins_have_sudo(node, user, allowed):
    assert (node.try_run("sudo -n id", user=user).returncode == 0) is allowed
