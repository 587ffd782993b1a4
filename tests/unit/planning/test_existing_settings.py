"""What the kubelet is told already: kept, counted, or a conflict that is reported."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import yaml

from numaforge.kubelet.config.loading import below
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check
from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.errors import PlanError, ProfileError
from numaforge.lib.quantity import parse_bytes
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import dumps
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import KUBEADM_CONFIG, kubeadm_kubelet, lab_node
from tests.fixtures.plans import after, decided, notices, planned, refusal
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

MIB = 2**20
FOLDER = "/etc/kubernetes/kubelet.conf.d"
DROP_IN = f"{FOLDER}/50-admin.conf"
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def node(
    text: str = "",
    *,
    flags: tuple[str, ...] = (),
    version: str = "1.36.3",
    drop_ins: dict[str, str] | None = None,
) -> NodeTopology:
    """Return the lab node with `text` added to kubeadm's configuration."""
    install = kubeadm_kubelet(version, KUBEADM_CONFIG + text)
    install = replace(install, flags=(*install.flags, *flags), drop_ins=drop_ins or {})
    if drop_ins:
        install = replace(install, config_dir=FOLDER, flags=(*install.flags, f"--config-dir={FOLDER}"))
    return replace(lab_node(), kubelet=install)


def plan(topology: NodeTopology, profile: dict[str, Any] | None = None) -> NodePlan:
    return planned(topology, **(profile or {}))


def settings(topology: NodeTopology, profile: dict[str, Any] | None = None) -> dict[str, Any]:
    return dict(plan(topology, profile).kubelet.settings)


def shares(chosen: NodePlan) -> list[int]:
    return [share.reserved_memory_bytes // MIB for share in chosen.memory.numa_nodes]


def test_existing_policy_is_kept_when_the_profile_is_silent():
    chosen = plan(node("topologyManagerPolicy: restricted\n"))
    assert chosen.kubelet.settings["topologyManagerPolicy"] == "restricted"
    reason = "kept as /var/lib/kubelet/config.yaml has it"
    assert decided(chosen, "kubelet.topologyManagerPolicy") == ("restricted", reason)


def test_existing_reserved_part_cores_are_kept_and_noticed():
    chosen = plan(node('reservedSystemCPUs: "0,4"\n'))
    assert (chosen.cpus.reserved, [*notices(chosen)]) == ({0, 4}, ["reserved-part-of-core"])


UNVERIFIED = {"kubelet": {"register_with_taints": ["numaforge.io/unverified:NoSchedule", "a=b:NoExecute"]}}
TAINTS = [
    {"key": "numaforge.io/unverified", "effect": "NoSchedule"},
    {"key": "a", "value": "b", "effect": "NoExecute"},
]
OTHER_TAINTS = "registerWithTaints:\n- {key: c, effect: NoSchedule}\n"


def test_taints_come_from_the_profile_and_conflict_with_others():
    assert settings(node(), UNVERIFIED)["registerWithTaints"] == TAINTS
    assert "registerWithTaints" not in settings(node(OTHER_TAINTS))
    message = refusal(node(OTHER_TAINTS), **UNVERIFIED)
    assert "the profile says numaforge.io/unverified:NoSchedule, a=b:NoExecute" in message
    asked = {"kubelet": {**UNVERIFIED["kubelet"], "on_conflict": "override"}}
    assert settings(node(OTHER_TAINTS), asked)["registerWithTaints"] == TAINTS
    flagged = node(flags=("--register-with-taints=c=:NoSchedule",))
    assert "a flag wins over every file" in refusal(flagged, **UNVERIFIED)


@pytest.mark.parametrize(
    "text", ["unverified", "a=b=c:NoSchedule", ":NoSchedule", "a:Never", "a/b/c:NoSchedule", 7]
)
def test_invalid_taint_is_refused_with_the_expected_format(text):
    with pytest.raises(ProfileError, match="KEY=VALUE:EFFECT"):
        load_profile({"kubelet": {"register_with_taints": [text]}})


def test_memory_already_reserved_is_counted_and_repeated_in_the_drop_in():
    chosen = plan(node("kubeReserved:\n  memory: 300Mi\n"), {"memory": {"system_reserved": "200Mi"}})
    assert chosen.memory.kube_reserved_bytes == 300 * MIB
    assert sum(shares(chosen)) == 600
    assert chosen.kubelet.settings["kubeReserved"] == {"memory": "300Mi"}


OPTION = {"cpu_manager_options": {"full-pcpus-only": True}}
THRESHOLD = {"eviction_hard": {"memory.available": "1Gi"}}
NOTATIONS = {
    "quantity": ("kubeReserved:\n  memory: 1024Mi\n", {"memory": {"kube_reserved": "1Gi"}}),
    "cpulist": ('reservedSystemCPUs: "1,0"\n', {"cpus": {"reserved": {"cpulist": "0-1"}}}),
    "policy": ("cpuManagerPolicy: static\n", {"kubelet": {"cpu_manager_policy": "static"}}),
    "option": ('cpuManagerPolicyOptions:\n  full-pcpus-only: "1"\n', {"kubelet": OPTION}),
    "threshold": ("evictionHard:\n  memory.available: 1048576Ki\n", {"memory": THRESHOLD}),
}


@pytest.mark.parametrize(("text", "profile"), NOTATIONS.values(), ids=NOTATIONS)
def test_equal_value_in_another_notation_is_not_a_conflict(text, profile):
    assert settings(node(text), profile)


@cases("text, profile, message", CASES["conflicts"])
def test_conflict_is_refused_unless_the_profile_overrides(text, profile, message):
    reported = refusal(node(text), **profile)
    assert message in reported
    assert "set kubelet.on_conflict: override" in reported
    kubelet = {**profile.get("kubelet", {}), "on_conflict": "override"}
    assert settings(node(text), {**profile, "kubelet": kubelet})


def test_override_opens_a_closed_feature_gate():
    wish = {"cpu_manager_options": {"distribute-cpus-across-numa": True}, "on_conflict": "override"}
    text = "featureGates:\n  CPUManagerPolicyBetaOptions: false\n"
    assert settings(node(text), {"kubelet": wish})["featureGates"] == {"CPUManagerPolicyBetaOptions": True}


FLAGS = CASES["flags"]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("on_conflict", ["refuse", "override"])
def test_profile_that_contradicts_a_flag_is_refused(flag, on_conflict):
    kubelet = {**FLAGS[flag].get("kubelet", {}), "on_conflict": on_conflict}
    message = refusal(node(flags=tuple(flag.split())), **{**FLAGS[flag], "kubelet": kubelet})
    assert "a flag wins over every file" in message
    name = flag.replace("=", " ").split()[0]
    assert f"take the flag {name} from the kubelet's arguments" in message


def test_flags_are_kept_counted_and_not_rewritten():
    flags = ("--reserved-cpus=0-1", "--kube-reserved=memory=300Mi", "--eviction-hard=memory.available<200Mi")
    chosen = plan(node(flags=flags))
    assert chosen.cpus.reserved == {0, 1}
    assert (chosen.memory.kube_reserved_bytes, chosen.memory.eviction_hard_bytes) == (300 * MIB, 200 * MIB)
    assert not {"reservedSystemCPUs", "kubeReserved", "evictionHard"} & set(chosen.kubelet.settings)


SPLIT = "reservedMemory:\n- numaNode: 3\n  limits:\n    memory: {}Mi\n"


def test_consistent_split_is_kept_and_another_one_a_conflict():
    assert shares(plan(node(flags=("--reserved-memory=0:memory=60Mi;1:memory=40Mi",)))) == [60, 40, 0, 0]
    assert shares(plan(node(SPLIT.format(100)))) == [0, 0, 0, 100]
    message = refusal(node(SPLIT.format(99)))
    assert "config.yaml does not add up to 100Mi on NUMA nodes that can hold it" in message


def test_admin_drop_in_wins_over_the_main_file():
    text = f"{HEADER}kubeReserved:\n  memory: 400Mi\n"
    chosen = plan(node("kubeReserved:\n  memory: 300Mi\n", drop_ins={DROP_IN: text}))
    assert chosen.memory.kube_reserved_bytes == 400 * MIB
    assert decided(chosen, "memory.kube_reserved")[1] == f"kept as {DROP_IN} has it"


def test_main_file_eviction_map_replaces_the_defaults():
    chosen = plan(node("evictionHard:\n  nodefs.available: 5%\n"))
    assert chosen.memory.eviction_hard_bytes == 0
    chosen = plan(node("evictionHard:\n  nodefs.available: 5%\nmergeDefaultEvictionSettings: true\n"))
    assert chosen.memory.eviction_hard_bytes == 100 * MIB


def test_drop_in_eviction_map_adds_to_the_defaults():
    chosen = plan(node(drop_ins={DROP_IN: f"{HEADER}evictionHard:\n  nodefs.available: 5%\n"}))
    assert chosen.kubelet.settings["evictionHard"]["memory.available"] == "100Mi"
    assert chosen.kubelet.settings["evictionHard"]["nodefs.available"] == "5%"


def test_empty_kubeadm_values_do_not_count_as_settings():
    empty = node('cpuManagerPolicy: ""\ntopologyManagerScope: null\n')
    assert settings(empty)["cpuManagerPolicy"] == "static"


def test_cpu_reservations_overruled_by_reserved_cpus_are_noticed():
    chosen = plan(node("kubeReserved:\n  cpu: 500m\n"))
    assert [*notices(chosen)] == ["reserved-cpu-overruled"]
    assert chosen.allocatable.cpu_millis == 14000


def test_reserved_cgroup_excludes_reserved_cpus():
    assert "remove systemReservedCgroup from" in refusal(node("systemReservedCgroup: /system.slice\n"))


def checked(topology: NodeTopology) -> Report:
    """Return what `check` says of the kubelet as it is set up on the machine."""
    install = topology.kubelet
    return check(
        install.config_text or "",
        topology=topology,
        version=install.version or "",
        drop_ins=below(FOLDER, install.drop_ins),
        flags=install.flags,
        drop_in_dir=FOLDER,
    )


def seen_by_plan(topology: NodeTopology) -> dict[str, Any]:
    """Return what a plan keeps of the kubelet's settings where the profile is silent."""
    chosen, refused = plan(replace(topology, swap_bytes=0)), ""
    try:
        plan(topology)
    except PlanError as error:
        refused = error.where or ""
    values = {decision.subject: decision.value for decision in chosen.decisions}
    return {
        "cpuManagerPolicy": values["kubelet.cpuManagerPolicy"],
        "topologyManagerPolicy": values["kubelet.topologyManagerPolicy"],
        "topologyManagerScope": values["kubelet.topologyManagerScope"],
        "reservedSystemCPUs": chosen.cpus.reserved,
        "kubeReserved": chosen.memory.kube_reserved_bytes,
        "systemReserved": chosen.memory.system_reserved_bytes,
        "evictionHard": chosen.memory.eviction_hard_bytes,
        "failSwapOn": refused.endswith("tuning.swap"),
    }


def seen_by_check(topology: NodeTopology) -> dict[str, Any]:
    """Return the same of the configuration with which `check` starts the kubelet."""
    effective = checked(topology).effective
    return {
        **effective,
        "reservedSystemCPUs": parse_cpulist(effective.get("reservedSystemCPUs", "")),
        "kubeReserved": parse_bytes(effective.get("kubeReserved", {}).get("memory", 0)),
        "systemReserved": parse_bytes(effective.get("systemReserved", {}).get("memory", 0)),
        "evictionHard": parse_bytes(effective.get("evictionHard", {}).get("memory.available", 0)),
    }


@dataclass(frozen=True)
class Setup:
    """How a kubelet is set up: what is added to kubeadm's file, the drop-ins by name, the flags."""

    text: str = ""
    drop_ins: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    def node(self, version: str = "1.36.3") -> NodeTopology:
        """Return the lab node with this kubelet, and with swap."""
        files = {f"{FOLDER}/{name}": HEADER + text for name, text in self.drop_ins.items()}
        topology = node(self.text, flags=self.flags, drop_ins=files, version=version)
        return replace(topology, swap_bytes=MIB)


# A setup, a field, and its value to plan and check.


@cases("setup, name, value", CASES["agreed"])
def test_plan_and_check_read_the_same_values(setup, name, value):
    topology = Setup(**setup).node()
    value = parse_cpulist(value) if name == "reservedSystemCPUs" else value
    assert (seen_by_check(topology)[name], seen_by_plan(topology)[name]) == (value, value)


@cases("setup, words", CASES["refused"])
def test_plan_and_check_refuse_the_same_with_kubelet_messages(setup, words):
    topology = Setup(**setup).node()
    error = checked(topology).error
    assert error is not None
    assert words in error
    assert error in refusal(topology)


def test_unloadable_file_is_named_with_its_remedy():
    message = refusal(node("evictionHard: [\n"))
    place = "node1: /var/lib/kubelet/config.yaml: "
    assert message.startswith(f"{place}kubelet 1.36.3 cannot load its configuration")
    assert message.endswith("correct the syntax")


@pytest.mark.parametrize("version", ["1.30.14", "1.31.0"], ids=str)
def test_null_in_a_drop_in_is_ignored_before_1_32(version):
    setup = Setup("topologyManagerPolicy: restricted\n", {"50.conf": "topologyManagerPolicy:\n"})
    topology = setup.node(version)
    assert seen_by_plan(topology)["topologyManagerPolicy"] == "restricted"
    assert seen_by_check(topology)["topologyManagerPolicy"] == "restricted"


@pytest.mark.parametrize("file", ["/var/lib/kubelet/config.yaml", DROP_IN], ids=["main-file", "drop-in"])
def test_configuration_missing_from_the_snapshot_is_noticed(file):
    install = replace(kubeadm_kubelet(), config_dir="/etc/kubernetes/kubelet.conf.d")
    ((notice, message),) = notices(
        plan(replace(lab_node(), kubelet=install, unreadable=(file, "/sys/x")))
    ).items()
    assert (notice, message.split()[0]) == ("kubelet-config-unread", file)
    assert not notices(plan(replace(lab_node(), unreadable=("/sys/x",))))


WISH = CASES["wish"]


def after_drop_in(topology: NodeTopology, chosen: NodePlan) -> NodeTopology:
    """Return the host as it looks once the plan is in effect."""
    added = {chosen.kubelet.drop_in: HEADER + yaml.safe_dump(chosen.kubelet.settings)}
    install = replace(
        topology.kubelet,
        config_dir=chosen.kubelet.config_dir,
        config_dir_added=True,
        flags=(*topology.kubelet.flags, f"--config-dir={chosen.kubelet.config_dir}"),
        drop_ins={**topology.kubelet.drop_ins, **added},
    )
    return after(replace(topology, kubelet=install), chosen)


def after_merge(topology: NodeTopology, chosen: NodePlan) -> NodeTopology:
    document = yaml.safe_load(topology.kubelet.config_text or "")
    for name, value in chosen.kubelet.settings.items():
        document[name] = {**document.get(name, {}), **value} if isinstance(value, dict) else value
    install = replace(topology.kubelet, config_text=yaml.safe_dump(document))
    return after(replace(topology, kubelet=install), chosen)


@cases("text", CASES["admins"])
@pytest.mark.parametrize(("version", "applied"), [("1.36.3", after_drop_in), ("1.29.4", after_merge)])
def test_planning_again_changes_nothing(text, version, applied):
    topology = node(text, version=version)
    first = plan(topology, WISH)
    assert dumps(plan(applied(topology, first), WISH)) == dumps(first)


def test_own_merged_values_do_not_bind_the_next_profile():
    topology = node(version="1.29.4")
    first = plan(topology, WISH)
    other = {"kubelet": {"topology_manager_policy": "restricted"}}
    assert settings(after_merge(topology, first), other)["topologyManagerPolicy"] == "restricted"


def test_merged_value_changed_by_the_admin_is_kept():
    topology = after_merge(node(version="1.29.4"), plan(node(version="1.29.4"), WISH))
    text = (topology.kubelet.config_text or "").replace("best-effort", "restricted")
    changed = replace(topology, kubelet=replace(topology.kubelet, config_text=text))
    assert "says topologyManagerPolicy: restricted" in refusal(changed, **WISH)


def test_obsolete_merged_values_are_removed():
    topology = node(version="1.29.4")
    first = plan(topology, {"memory": {"system_reserved": "500Mi"}})
    chosen = plan(after_merge(topology, first), {"memory": {"kube_reserved": 0}}).kubelet
    assert chosen.retired == {"systemReserved": {"memory": "500Mi"}}


def test_kubelet_upgrade_moves_our_values_to_the_drop_in():
    first = plan(node(version="1.29.4"), WISH)
    merged = after_merge(node(version="1.29.4"), first)
    upgraded = replace(merged, kubelet=replace(merged.kubelet, version="1.31.0"))
    assert plan(upgraded, WISH).kubelet.retired == first.kubelet.settings
    again = after_drop_in(upgraded, plan(upgraded, WISH))
    assert dumps(plan(again, WISH)) == dumps(plan(upgraded, WISH))


def test_unreadable_earlier_plan_is_noticed_and_replaced():
    said = notices(plan(replace(lab_node(), previous_plan='{"schema": 99}')))
    assert "it has schema 99, and 1 is read here" in said["earlier-plan-unreadable"]
