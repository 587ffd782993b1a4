"""The kubelet's settings by version and machine, how they reach it, and what is refused."""

from dataclasses import replace

import pytest

from numaforge.machine.topology.model import KubeletInstall, NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.planning.render import plan_files
from numaforge.roles.kubelet.plan import KubeletPlan
from tests.fixtures.machines import (
    EXEC_START,
    KUBEADM_CONFIG,
    big_512,
    dgx_h100,
    epyc_gpu,
    epyc_l3_gpu,
    epyc_nps4,
    gb200_cdmm,
    grace_blackwell_tray,
    grace_memory_only,
    kubeadm_kubelet,
    lab_node,
    laptop,
    machine,
    many_numa_nodes,
    mi300x,
    one_numa_node,
    quad_gh200,
    two_cpu_vm,
)
from tests.fixtures.plans import notices, planned, refusal
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

STRICT = {"strict-cpu-reservation": "true"}


def plan(topology: NodeTopology, version: str | None = None, **wish) -> NodePlan:
    return planned(topology, version, kubelet=wish)


def kubelet(topology: NodeTopology, version: str | None = None, **wish) -> KubeletPlan:
    return plan(topology, version, **wish).kubelet


def refused(topology: NodeTopology, version: str | None = None, **wish) -> str:
    return refusal(topology, version, kubelet=wish)


def on_a_laptop(install: KubeletInstall | None, **profile) -> NodePlan:
    return planned(replace(laptop(), swap_bytes=0, kubelet=install), **profile)


def test_several_numa_nodes_are_aligned_by_default():
    settings = kubelet(lab_node()).settings
    assert settings["cpuManagerPolicy"] == "static"
    assert settings["cpuManagerPolicyOptions"] == {"full-pcpus-only": "true", **STRICT}
    assert settings["topologyManagerPolicy"] == "single-numa-node"
    assert settings["memoryManagerPolicy"] == "Static"


def test_one_numa_node_has_nothing_to_align():
    settings = kubelet(machine(cores_per_numa_node=4, kubelet=kubeadm_kubelet())).settings
    assert settings["topologyManagerPolicy"] == "none"
    assert settings["memoryManagerPolicy"] == "None"
    assert "reservedMemory" not in settings


def test_one_core_has_no_static_policy():
    assert kubelet(two_cpu_vm()).settings["cpuManagerPolicy"] == "none"
    assert "only core cannot be divided" in refused(two_cpu_vm(), cpu_manager_policy="static")


ONE_THREAD = machine(cores_per_numa_node=4, threads=1, kubelet=kubeadm_kubelet())
UNEVEN_SMT = replace(laptop(), kubelet=kubeadm_kubelet(), swap_bytes=0)
SPREAD = {"distribute-cpus-across-cores": True}
OPTIONS = {
    "one-thread-per-core-leaves-it-out": (ONE_THREAD, {}, {}),
    "uneven-smt-leaves-it-out": (UNEVEN_SMT, {}, {}),
    "it-gives-way-to-its-opposite": (lab_node(), SPREAD, {"distribute-cpus-across-cores": "true"}),
    "it-can-be-switched-off": (lab_node(), {"full-pcpus-only": False}, {"full-pcpus-only": "false"}),
}


@pytest.mark.parametrize(("topology", "options", "said"), OPTIONS.values(), ids=OPTIONS)
def test_full_pcpus_only_is_set_where_it_can_be(topology, options, said):
    settings = kubelet(topology, cpu_manager_options=options).settings
    assert settings["cpuManagerPolicyOptions"] == {**said, **STRICT}


NO_BETA = "featureGates:\n  CPUManagerPolicyBetaOptions: false\n"
SHARED = 'cpuManagerPolicyOptions:\n  strict-cpu-reservation: "false"\n'
STRICTNESS: dict[str, tuple[str, str, dict[str, bool], bool]] = {
    "on-from-1.33": ("1.33", "", {}, True),
    "off-where-it-is-alpha": ("1.32", "", {}, False),
    "off-where-it-is-unknown": ("1.31", "", {}, False),
    "off-where-the-profile-says-so": ("1.36", "", {"strict-cpu-reservation": False}, False),
    "off-where-the-kubelets-own-gate-is": ("1.33", NO_BETA, {"full-pcpus-only": False}, False),
    "as-the-kubelets-file-has-it": ("1.36", SHARED, {}, False),
}


@pytest.mark.parametrize(("version", "held", "options", "strict"), STRICTNESS.values(), ids=STRICTNESS.keys())
def test_reserved_cpus_are_kept_from_the_shared_pool(version, held, options, strict):
    topology = replace(lab_node(), kubelet=kubeadm_kubelet(version, KUBEADM_CONFIG + held))
    chosen = plan(topology, cpu_manager_options=options)
    said = chosen.kubelet.settings.get("cpuManagerPolicyOptions", {})
    assert (said.get("strict-cpu-reservation") == "true") is strict
    assert ("reserved-cpus-shared" in notices(chosen)) is not strict


GATES = {
    "alpha-needs-its-gate": ("1.32", "strict-cpu-reservation", {"CPUManagerPolicyAlphaOptions": True}),
    "beta-is-on-by-itself": ("1.33", "strict-cpu-reservation", None),
    "stable-needs-none": ("1.36", "strict-cpu-reservation", None),
    "alpha-forever": ("1.36", "align-by-socket", {"CPUManagerPolicyAlphaOptions": True}),
}


@pytest.mark.parametrize(("version", "option", "gates"), GATES.values(), ids=GATES.keys())
def test_feature_gates_are_set_where_the_option_needs_them(version, option, gates):
    chosen = kubelet(
        lab_node(), version, topology_manager_policy="restricted", cpu_manager_options={option: True}
    )
    assert chosen.settings.get("featureGates") == gates


NEAREST = {"prefer-closest-numa-nodes": "true"}
LIMIT_OPTION = "max-allowable-numa-nodes"
TOPOLOGY_OPTIONS = {
    "the-nearest-of-eight": (epyc_nps4(), NEAREST),
    "two-need-no-preference": (dgx_h100(), {}),
    "more-than-eight-raise-the-limit": (big_512(), {**NEAREST, LIMIT_OPTION: "16"}),
    "those-without-cpus-count": (grace_memory_only(), {LIMIT_OPTION: "9"}),
}


@pytest.mark.parametrize(("topology", "options"), TOPOLOGY_OPTIONS.values(), ids=TOPOLOGY_OPTIONS)
def test_topology_options_follow_the_numa_nodes(topology, options):
    settings = kubelet(topology, topology_manager_policy="best-effort").settings
    assert settings.get("topologyManagerPolicyOptions", {}) == options


@cases("version, wish, message", CASES["refusals"])
def test_refused(version, wish, message):
    assert message in refused(lab_node(), version, **wish)


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param({"topology_manager_policy": "restricted"}, id="the-profile-names-a-policy"),
        pytest.param({"topology_manager_options": {"prefer-closest-numa-nodes": True}}, id="or-an-option"),
    ],
)
def test_many_numa_nodes_need_a_kubelet_with_the_limit_option(wish):
    message = refused(big_512(), "1.30", **wish)
    assert "has 16 NUMA nodes, those without CPUs included, and kubelet 1.30 aligns at most 8" in message
    assert "use a kubelet that has max-allowable-numa-nodes (1.31 to 1.37)" in message


@pytest.mark.parametrize("topology", [big_512(), many_numa_nodes(32)], ids=["16", "34"])
@pytest.mark.parametrize("version", ["1.28", "1.30"])
def test_kubelet_without_the_limit_aligns_nothing_by_default(topology, version):
    chosen = plan(topology, version)
    assert chosen.kubelet.settings["topologyManagerPolicy"] == "none"
    message = notices(chosen)["not-aligned"]
    assert f"the machine has {len(topology.numa_nodes)} NUMA nodes" in message
    assert f"kubelet {version} aligns at most 8, so it would not start with" in message
    assert "To align them, use a kubelet that has max-allowable-numa-nodes (1.31 to 1.37)" in message
    assert message.endswith(FEWER)


def test_many_numa_nodes_without_alignment_work_on_any_version():
    settings = kubelet(big_512(), "1.30", topology_manager_policy="none").settings
    assert settings["topologyManagerPolicy"] == "none"


def test_limit_below_the_machine_numa_nodes_is_refused():
    message = refused(big_512(), topology_manager_options={LIMIT_OPTION: 8})
    assert "max-allowable-numa-nodes is 8, but the machine has 16 NUMA nodes" in message


NEWER = "use kubelet 1.36 or later, which walks only NUMA nodes with devices"


@cases("version, wish, message", CASES["endless"])
def test_policy_with_endless_admission_is_refused(version, wish, message):
    tray = grace_blackwell_tray()
    assert message in refusal(tray, version, kubelet=wish, memory={"system_reserved": "1Gi"})


FEWER = "show fewer NUMA nodes in the firmware (NPS on EPYC, SNC on Xeon)"


@pytest.mark.parametrize(
    ("topology", "version", "remedy"),
    [
        pytest.param(many_numa_nodes(32), "1.36", FEWER, id="each-l3-a-numa-node"),
        pytest.param(grace_blackwell_tray(), "1.35", NEWER, id="devices-on-all-34"),
        pytest.param(gb200_cdmm(), "1.35", NEWER, id="which-CDMM-leaves-there"),
        pytest.param(quad_gh200(), "1.35", NEWER, id="devices-on-all-36"),
        pytest.param(grace_blackwell_tray(), "1.30", NEWER, id="too-many-for-the-kubelet-at-all"),
    ],
)
def test_alignment_with_endless_admission_is_off_by_default(topology, version, remedy):
    chosen = plan(topology, version)
    assert chosen.kubelet.settings["topologyManagerPolicy"] == "none"
    assert chosen.kubelet.settings["cpuManagerPolicy"] == "static"
    assert "topologyManagerPolicyOptions" not in chosen.kubelet.settings
    assert notices(chosen)["not-aligned"].endswith(f"To align them, {remedy}")


def test_alignment_options_are_refused_where_alignment_is_impossible():
    wish = {"topology_manager_options": {"prefer-closest-numa-nodes": True}}
    assert "would admit no pod in time" in refused(many_numa_nodes(32), "1.36", **wish)


@pytest.mark.parametrize("wish", [{}, {"topology_manager_policy": "restricted"}], ids=["unset", "set"])
def test_kubelet_from_1_36_aligns_34_numa_nodes_without_memory_manager(wish):
    chosen = plan(grace_blackwell_tray(), "1.36", **wish)
    assert chosen.kubelet.settings["topologyManagerPolicyOptions"][LIMIT_OPTION] == "34"
    assert chosen.kubelet.settings["memoryManagerPolicy"] == "None"
    assert "many-hints" not in notices(chosen)


def test_slow_topology_hints_are_noticed():
    wish = {"topology_manager_policy": "restricted", "memory_manager_policy": "Static"}
    message = notices(planned(epyc_gpu(), kubelet=wish, memory={"system_reserved": "1Gi"}))["many-hints"]
    assert "4,228,250,625 combinations of hints" in message
    assert "about 21 minutes" in message
    assert "or set kubelet.memory_manager_policy: None" in message


def test_align_by_socket_needs_a_numa_node_per_package():
    topology = one_numa_node(machine(packages=2, cores_per_numa_node=2, kubelet=kubeadm_kubelet()))
    message = refused(topology, cpu_manager_options={"align-by-socket": True})
    assert "there are 2 packages, and fewer NUMA nodes with CPUs: 1" in message


def test_newer_kubelet_is_treated_as_the_latest_known():
    assert [*notices(plan(lab_node(), "1.99.0"))] == ["newer-kubelet"]


def test_requested_version_wins_over_the_host_version():
    assert kubelet(lab_node(), "1.33.1").version == "1.33.1"
    assert kubelet(lab_node(), version=None).version == "1.36.3"


def test_host_without_a_kubelet_is_planned_for_the_profile_version():
    chosen = plan(laptop())
    assert (chosen.kubelet, chosen.allocatable) == (None, None)
    assert "no-kubelet" in notices(chosen)
    chosen = on_a_laptop(None, kubelet={"version": "1.35"})
    assert chosen.kubelet.version == "1.35"


@pytest.mark.parametrize(
    ("version", "unit"),
    [(None, "k3s.service"), ("1.31.9", "k3s.service"), ("1.36.5", None)],
    ids=["unknown", "before-it-has-drop-ins", "down"],
)
@pytest.mark.parametrize("wish", [{}, {"version": "1.35"}], ids=["unsaid", "named-by-the-profile"])
def test_distribution_kubelet_is_not_planned(wish, version, unit):
    install = KubeletInstall(version, unit, None, unit and "/k3s/conf.d", (), distribution="k3s")
    chosen = on_a_laptop(install, kubelet=wish)
    assert chosen.kubelet is None
    message = notices(chosen)["kubelet-of-a-distribution"]
    assert message.startswith("k3s runs this host's kubelet its own way")


def test_distribution_with_drop_ins_gets_a_drop_in_in_its_folder():
    flags = ("--config-dir=/k3s/conf.d",)
    install = KubeletInstall("1.36.5", "k3s.service", None, "/k3s/conf.d", flags, distribution="k3s")
    chosen = on_a_laptop(install).kubelet
    assert (chosen.drop_in, chosen.unit) == ("/k3s/conf.d/90-numaforge.conf", "k3s.service")
    assert not chosen.adds_config_dir


MICROK8S = KubeletInstall(
    "1.36.5",
    "snap.microk8s.daemon-kubelite.service",
    None,
    None,
    ("--eviction-hard=memory.available<100Mi",),
    distribution="MicroK8s",
    arguments_file="/args/kubelet",
    arguments_text='--eviction-hard="memory.available<100Mi"\n',
)
MICROK8S_FLAG = "--config-dir=/var/snap/microk8s/common/etc/kubelet.conf.d"


def planned_on(install: KubeletInstall, **kubelet) -> dict[str, str]:
    """Return the text of the file of arguments by its path, where it is written."""
    text = replace(laptop(), kubelet=install).edited_kubelet_text
    files = plan_files(on_a_laptop(install, kubelet=kubelet), text)
    return {file.path: file.text for file in files if file.path == install.arguments_file}


def test_microk8s_argument_line_is_added_and_removed():
    (text,) = planned_on(MICROK8S).values()
    header, *lines = text.splitlines()
    assert header.startswith("# Written by numaforge ")
    assert lines == ['--eviction-hard="memory.available<100Mi"', MICROK8S_FLAG]
    folder = MICROK8S_FLAG.partition("=")[2]
    wired = replace(MICROK8S, arguments_text=text, config_dir=folder, config_dir_added=True)
    assert planned_on(wired) == {"/args/kubelet": text}
    assert planned_on(wired, state="absent") == {"/args/kubelet": MICROK8S.arguments_text}
    assert planned_on(MICROK8S, state="absent") == {}


def test_drop_in_folder_in_the_microk8s_arguments_is_used():
    chosen = on_a_laptop(replace(MICROK8S, config_dir="/own", flags=("--config-dir=/own",))).kubelet
    assert (chosen.drop_in, chosen.argument) == ("/own/90-numaforge.conf", None)


def test_unread_microk8s_arguments_are_reported():
    unread = replace(MICROK8S, arguments_text=None, flags=())
    host = replace(laptop(), swap_bytes=0, kubelet=unread, unreadable=("/args/kubelet",))
    assert planned(host).kubelet is None
    assert any("/args/kubelet was not read" in message for message in notices(planned(host)).values())


def test_drop_in_is_written_and_wired_from_1_30():
    chosen = kubelet(lab_node(), "1.30.0")
    assert chosen.delivery == "drop-in"
    assert chosen.drop_in == "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
    assert (chosen.exec_start, chosen.variable) == (None, "KUBELET_EXTRA_ARGS")


OTHERS = "/usr/local/bin/kubelet $KUBE_LOG_LEVEL $KUBELET_ARGS $KUBELET_CLOUDPROVIDER"
WIRED = {
    "kubeadm's": (EXEC_START, "KUBELET_EXTRA_ARGS"),
    "kubespray's": (OTHERS, "KUBELET_CLOUDPROVIDER"),
    "one without a variable": ("/usr/bin/kubelet --config=/k", None),
    "one that is a part of a word": ("/usr/bin/kubelet --v=$V ${W}", None),
    "one of a program that starts it": ("/usr/bin/env $X /usr/bin/kubelet", None),
    "one within a shell's command": ("/bin/sh -c '/usr/bin/kubelet $A'", None),
}


@pytest.mark.parametrize("added", [False, True], ids=["at first", "again"])
@pytest.mark.parametrize(("exec_start", "variable"), WIRED.values(), ids=WIRED)
def test_config_dir_flag_uses_a_unit_variable_or_extends_exec_start(exec_start, variable, added):
    folder = "/etc/kubernetes/kubelet.conf.d"
    install = replace(kubeadm_kubelet(), exec_start=exec_start, config_dir_added=added)
    install = replace(install, config_dir=folder if added else None)
    chosen = kubelet(replace(lab_node(), kubelet=install))
    assert chosen.variable == variable
    assert chosen.exec_start == (None if variable else f"{exec_start} --config-dir={folder}")


def test_settings_are_merged_into_the_main_file_before_1_30():
    chosen = kubelet(lab_node(), "1.29.4")
    assert (chosen.delivery, chosen.drop_in, chosen.exec_start) == ("merge", None, None)
    assert chosen.config_file == "/var/lib/kubelet/config.yaml"


def test_existing_config_dir_is_used():
    install = replace(kubeadm_kubelet(), config_dir="/etc/k8s/conf.d")
    chosen = kubelet(replace(lab_node(), kubelet=install))
    assert (chosen.drop_in, chosen.exec_start) == ("/etc/k8s/conf.d/90-numaforge.conf", None)


def test_kubelet_that_cannot_be_wired_is_refused():
    unstarted = replace(kubeadm_kubelet(), exec_start=None)
    message = refused(replace(lab_node(), kubelet=unstarted))
    assert "add --config-dir=/etc/kubernetes/kubelet.conf.d" in message
    old = replace(kubeadm_kubelet("1.29.0"), config_file=None, config_text=None)
    message = refused(replace(lab_node(), kubelet=old))
    assert "start it with --config=/var/lib/kubelet/config.yaml" in message


def test_files_are_listed_with_their_modes():
    files = {file.path: (file.role, file.mode) for file in plan(lab_node()).files}
    assert files == {
        "/etc/numaforge/plan.json": ("topology", "0600"),
        "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf": ("kubelet", "0600"),
        "/etc/systemd/system/kubelet.service.d/90-numaforge.conf": ("kubelet", "0644"),
        "/var/lib/numaforge/lib/kubelet-arguments.sh": ("kubelet", "0644"),
        "/var/lib/numaforge/lib/memory-state.sh": ("kubelet", "0644"),
        "/etc/systemd/system/kubelet.service.d/91-numaforge-memory-state.conf": ("kubelet", "0644"),
    }


def test_no_memory_state_is_set_aside_without_static_memory():
    paths = [file.path for file in plan(lab_node(), memory_manager_policy="None").files]
    assert "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf" in paths
    assert not [path for path in paths if "memory-state" in path]


def divided(numa_nodes_per_package: int, *, gpus: bool = True, vendor: str = "AuthenticAMD"):
    """Return two packages of 32 cores with a GPU near every fourth part of each, as firmware divides them."""
    per_package = numa_nodes_per_package
    built = machine(
        packages=2,
        numa_nodes_per_package=per_package,
        cores_per_numa_node=32 // per_package,
        numa_memory_bytes=2**40 // per_package,
        gpus=mi300x().gpus if gpus else [],
    )
    nodes = 2 * per_package
    placed = tuple(replace(gpu, numa_node=place * nodes // 8) for place, gpu in enumerate(built.gpus))
    return replace(built, gpus=placed, cpu_vendor=vendor)


NPS1 = "or choose NPS1 in the firmware, without L3 as NUMA domain"


DIVIDED = {
    "best-effort-takes-near-ones": (
        divided(4),
        "best-effort",
        "several NUMA nodes, with prefer-closest-numa-nodes near ones; " + NPS1,
    ),
    "single-numa-node-is-too-strict": (
        divided(4),
        "single-numa-node",
        "refuses a pod that needs more: set kubelet.topology_manager_policy: best-effort; " + NPS1,
    ),
    "restricted-is-too-strict": (
        divided(4),
        "restricted",
        "refuses a pod whose GPUs need fewer NUMA nodes than its CPUs: set "
        "kubelet.topology_manager_policy: best-effort; " + NPS1,
    ),
    "none-aligns-nothing": (
        divided(4),
        "none",
        "none aligns none of them: set kubelet.topology_manager_policy: best-effort",
    ),
    "NPS2": (divided(2), "best-effort", "2 packages are 4 NUMA nodes"),
    "NPS1-is-not-divided": (divided(1), "best-effort", None),
    "without-GPUs": (divided(4, gpus=False), "best-effort", None),
    "not-an-EPYC": (divided(4, vendor="GenuineIntel"), "best-effort", None),
}


@pytest.mark.parametrize(("topology", "policy", "says"), DIVIDED.values(), ids=DIVIDED)
def test_choice_on_a_firmware_divided_epyc_is_explained(topology, policy, says):
    chosen = plan(topology, "1.36", topology_manager_policy=policy)
    messages = [notice.message for notice in chosen.notices if notice.id == "divided-packages"]
    assert [says in message for message in messages] == ([True] if says else []), messages


def test_only_nps1_is_suggested_when_numa_nodes_are_too_many():
    said = notices(plan(epyc_l3_gpu(), "1.36"))
    assert "divided-packages" not in said
    assert said["not-aligned"].endswith("(NPS1, and no L3 as NUMA domain)")
