"""What a host needs for its kubelet to be as planned, huge pages included."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from numaforge.change import parts
from numaforge.change.goal import Goal
from numaforge.change.look import question
from numaforge.change.need import need, pending
from numaforge.change.transaction import Transaction
from numaforge.lib.errors import HostError
from numaforge.lib.file_content import PLAN_PATH
from numaforge.node.bundle import FileState
from numaforge.node.fence import Fingerprint
from numaforge.node.part import NodeState, Part, Unit
from numaforge.node.pods import Pods
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import role_files
from numaforge.roles.gpudirect.plan import AcsPlan
from numaforge.roles.hugepages.expected import hugepage_totals, pool_pages
from numaforge.roles.hugepages.files import HUGEPAGES_TMPFILES_PATH
from numaforge.roles.kernel_cmdline.plan import KernelPlan
from numaforge.roles.kernel_values.part import RECORD
from numaforge.roles.rdma.planned import NCCL_CONF_PATH, RAILS_ENV_PATH
from tests.fixtures.kubelet_goal import PROFILE, STATIC, found, not_asked, target
from tests.fixtures.rdma_machines import dgx
from tests.fixtures.tables import cases

MEMORY_STATE = "/var/lib/kubelet/memory_manager_state"
STATIC_STATE = {MEMORY_STATE: '{"policyName":"Static","machineState":{},"entries":{},"checksum":0}'}
RUNNING = Unit("active", "running", ("curl",))
STOPPED = Unit("inactive", "dead", ("curl",))
OTHER_DROP_IN = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 30\n"
NO_SYSTEMD = Unit(None, None, ("curl",))


def drop_in(on: Goal) -> str:
    assert on.plan.kubelet.drop_in is not None
    return on.plan.kubelet.drop_in


def needed(on: Goal, files: NodeState, unit: Unit = RUNNING) -> Transaction:
    transaction = need(on, replace(files, unit=lambda: unit))
    assert transaction is not None
    return transaction


def part(transaction: Transaction, name: str) -> Part:
    return next(part for part in transaction.parts if part.name == name)


def names(transaction: Transaction) -> list[str]:
    return [part.name for part in transaction.parts]


def written(transaction: Transaction) -> list[str]:
    return [change.path for part in transaction.parts for change in part.changed if change.new]


@cases(
    "roles, asked",
    {
        "none-but-those-of-every-run": ((), "files reboot watch"),
        "the-pools-go-with-the-kubelet": (("kubelet",), "files reboot hugepages kubelet watch"),
        "the-pools-alone": (("hugepages",), "files reboot hugepages watch"),
        "several-that-a-deploy-calls-by-one-name": (
            ("tuning",),
            "files kernel_cmdline reboot pcie_acs kernel_values watch",
        ),
        "two-by-their-height": (("mig", "rdma"), "files mig_mode reboot nics mig memlock watch"),
        "two-with-others-between": (("modules", "host"), "files packages modules reboot crio watch"),
        "one-part-each": (
            ("amd_partitions", "imex", "interrupts", "system"),
            "files reboot interrupts system amd_partitions imex watch",
        ),
    },
)
def test_parts_are_consulted_only_if_their_role_was_called(roles, asked):
    assert [part.name for part in parts.called(roles)] == asked.split()


POOL = pool_pages(1, "2Mi")


def test_query_covers_every_planned_pool_and_their_boot_file():
    asked = question(target())
    assert POOL in asked.values
    assert HUGEPAGES_TMPFILES_PATH in asked.files


def test_only_differing_pools_are_filled_and_the_kubelet_restarts_for_them():
    on = target()
    transaction = needed(on, found(on, {POOL: 3}))
    assert part(transaction, "hugepages").data["planned"] == f"16 {POOL}\n"
    assert transaction.moves == (f"{POOL}: 3 -> 16",)
    assert names(transaction) == ["hugepages", "kubelet"]
    assert transaction.drains
    assert transaction.sentences == ("the kubelet restarts, because this changes: hugepages",)


def test_pools_are_listed_beside_the_changed_settings():
    on = target()
    transaction = needed(on, found(on, {POOL: 3}, **{drop_in(on): OTHER_DROP_IN}))
    assert transaction.sentences[-1].endswith(", systemReserved, topologyManagerPolicy, hugepages")


def test_current_host_values_override_detected_ones():
    on = target()
    assert hugepage_totals(on.machine)[POOL] != 16
    assert need(on, found(on)) is None


def test_memory_state_of_other_pools_is_removed():
    on = target(STATIC)
    transaction = needed(on, found(on, {POOL: 3}, **STATIC_STATE))
    assert part(transaction, "kubelet").data["invalid-state"] == f"{MEMORY_STATE}\n"
    assert transaction.sentences[0].startswith(f"{MEMORY_STATE} is removed: a hugepage pool changed its size")


def test_boot_file_alone_restarts_nothing():
    on = target()
    transaction = needed(on, found(on, **{HUGEPAGES_TMPFILES_PATH: None}))
    assert written(transaction) == [HUGEPAGES_TMPFILES_PATH]
    assert not transaction.drains


def test_unplanned_boot_file_is_removed():
    on = target({name: value for name, value in PROFILE.items() if name != "hugepages"})
    transaction = needed(on, found(on, **{HUGEPAGES_TMPFILES_PATH: "# Written by numaforge\n"}))
    assert part(transaction, "files").data["absent"] == f"{HUGEPAGES_TMPFILES_PATH}\n"


def test_change_begins_only_on_its_planned_fingerprint():
    on = target()
    fingerprint = Fingerprint("boot", 7, "T0 applied", {"/etc/a": "1f"}, "/etc/kubernetes/kubelet.conf.d")
    transaction = needed(on, replace(found(on, {POOL: 3}), fingerprint=fingerprint))
    assert transaction.planned_on == fingerprint


def test_look_covers_every_file_the_decision_depends_on():
    on = target()
    asked = question(on)
    kubelet = on.plan.kubelet
    assert {kubelet.config_file, HUGEPAGES_TMPFILES_PATH, MEMORY_STATE} <= {*asked.files}
    assert {file.path for file in on.plan.files if file.role == "kubelet"} <= {*asked.files}
    assert asked.drop_in_folder == kubelet.config_dir
    call = f"read_files_and_drop_ins {kubelet.config_dir} "
    looked = next(line for line in asked.script.splitlines() if line.startswith(call))
    assert all(path in looked for path in asked.files)


@pytest.mark.parametrize("unit", [STOPPED, NO_SYSTEMD], ids=["stopped", "no-systemd"])
def test_only_hugepages_role_fills_pools_of_a_stopped_kubelet_without_a_drain(unit):
    on, called = target(), target(PROFILE, "hugepages", "kubelet")
    files = found(on, {POOL: 3}, **{HUGEPAGES_TMPFILES_PATH: None})
    assert need(on, replace(files, unit=lambda: unit)) is None
    transaction = needed(called, files, unit)
    assert names(transaction)[:2] == ["files", "hugepages"]
    assert not transaction.drains


def test_pool_changes_without_kubelet_restart_are_refused():
    on = target(PROFILE, "hugepages")
    with pytest.raises(HostError, match="16 huge pages are planned, and there are 3; but the kubelet runs"):
        needed(on, found(on, {POOL: 3}))


def test_stopped_kubelet_is_configured_without_its_pools():
    on = target()
    changes = {HUGEPAGES_TMPFILES_PATH: None, drop_in(on): OTHER_DROP_IN}
    transaction = needed(on, found(on, {POOL: 3}, **changes), STOPPED)
    assert written(transaction) == [drop_in(on)]
    assert (names(transaction), transaction.drains) == (["files", "kubelet"], False)


def test_crash_looping_kubelet_gets_settings_and_pools_together():
    on = target()
    crashing = replace(RUNNING, active_state="activating", sub_state="auto-restart")
    transaction = needed(on, found(on, {POOL: 3}, **{HUGEPAGES_TMPFILES_PATH: None}), crashing)
    assert names(transaction) == ["files", "hugepages", "kubelet"]
    assert part(transaction, "kubelet").settings["KUBELET_RESTART"] == ""


def test_unreadable_state_is_removed_when_no_kubelet_runs():
    on = target(STATIC)
    transaction = needed(on, found(on, {POOL: 3}, **STATIC_STATE), STOPPED)
    kubelet = part(transaction, "kubelet")
    assert kubelet.data["invalid-state"] == f"{MEMORY_STATE}\n"
    assert (transaction.drains, kubelet.drains) == (
        False,
        True,
    )  # pods would be disturbed, and none are there


def test_without_systemd_no_state_is_touched():
    on = target(STATIC)
    assert need(on, replace(found(on, {POOL: 3}, **STATIC_STATE), unit=lambda: NO_SYSTEMD)) is None


def test_pool_missing_from_the_kernel_is_refused():
    on = target()
    files = found(on)
    there = {path: pages for path, pages in files.values.items() if path != POOL}
    with pytest.raises(HostError, match=f"{POOL}: this kernel has no such pool"):
        needed(on, replace(files, values=there))


# ---- kernel values ----

TUNED = {**PROFILE, "tuning": {"sysctls": {"vm.swappiness": "10", "vm.max_map_count": "262144"}}}
SWAPPINESS, MAPS = "/proc/sys/vm/swappiness", "/proc/sys/vm/max_map_count"
"""One value that is set, and a limit that is only ever raised."""


def tuned(swap: str = "off", unit: str = "enabled", **values: str) -> tuple[Goal, NodeState]:
    on = target(TUNED, "tuning")
    now = {SWAPPINESS: "10", MAPS: "262144"} | {f"/proc/sys/vm/{name}": text for name, text in values.items()}
    files = found(on)
    said = {"kernel_values": (f"swap {swap}", f"unit {unit}")}
    return on, replace(files, values={**files.values, **now}, said=said)


@pytest.mark.parametrize("now", [{}, {"max_map_count": "1048576"}], ids=["as-planned", "a-higher-limit"])
def test_values_as_planned_need_nothing(now):
    assert need(*tuned(**now)) is None


def test_only_the_differing_value_is_set_without_a_drain():
    on, files = tuned(swappiness="60")
    transaction = needed(on, files)
    assert names(transaction) == ["kernel_values"]
    assert part(transaction, "kernel_values").data["planned"] == f"new\t{SWAPPINESS}\t10\n"
    assert transaction.moves == (f"{SWAPPINESS}: 60 -> 10",)
    assert not transaction.drains


def test_disabled_unit_is_enabled():
    assert needed(*tuned(unit="disabled")).moves == ("numaforge-tuning.service: disabled -> enabled",)


def recorded(*rows: tuple[str, str, str], swap: str = "off", **values: str) -> tuple[Goal, NodeState]:
    """Return a node that is as planned, with a record of what was there before: PATH, EARLIER, OURS."""
    on, files = tuned(swap)
    text = "# head\n" + "".join("\t".join(row) + "\n" for row in rows)
    now = {f"/proc/sys/{name.replace('__', '/')}": value for name, value in values.items()}
    record = {RECORD: FileState(text, "0644", "root", "root")}
    return on, replace(files, values={**files.values, **now}, files={**files.files, **record})


ZONES = "/proc/sys/vm/zone_reclaim_mode"


@cases(
    "rows, values, moves",
    {
        "a value that is as we set it is put back": (
            [(ZONES, "0", "1")],
            {"vm__zone_reclaim_mode": "1"},
            (f"{ZONES}: 1 -> 0, as before numaforge",),
        ),
        "a value that someone else or a boot has changed is left alone": (
            [(ZONES, "0", "1")],
            {"vm__zone_reclaim_mode": "3"},
            (f"{ZONES}: not as numaforge has set it, left as it is",),
        ),
        "a value that the kernel lacks by now leaves the record": (
            [(ZONES, "0", "1")],
            {},
            (f"{ZONES}: not as numaforge has set it, left as it is",),
        ),
        "a switch that cannot be read is not written": (
            [("/sys/kernel/mm/transparent_hugepage/enabled", "always", "madvise")],
            {},
            ("/sys/kernel/mm/transparent_hugepage/enabled: not as numaforge has set it, left as it is",),
        ),
        "swap is turned on again": (
            [("swap /dev/sda2", "-2", "off")],
            {},
            ("swap /dev/sda2: off -> on, as before numaforge",),
        ),
    },
)
def test_dropped_kernel_values_are_restored_only_if_unchanged(rows, values, moves):
    on, files = recorded(*rows, **values)
    transaction = needed(on, files)
    assert transaction.moves == moves
    assert part(transaction, "kernel_values").data["kept"] == ""


def test_planned_value_stays_recorded_with_its_original():
    on, files = recorded((SWAPPINESS, "60", "1"))
    assert need(on, files) is None
    on, files = recorded((SWAPPINESS, "60", "1"), vm__swappiness="1")
    chosen = part(needed(on, files), "kernel_values")
    assert chosen.data["planned"] == f"recorded\t{SWAPPINESS}\t10\n"
    assert chosen.data["kept"] == f"{SWAPPINESS}\t60\t10\n"


def test_empty_value_is_restored_as_empty():
    on, files = recorded((ZONES, "", "1"), vm__zone_reclaim_mode="1")
    assert part(needed(on, files), "kernel_values").data["planned"] == f"back\t{ZONES}\t\n"


@pytest.mark.parametrize(
    ("used", "moved"), [("500 0 9000", True), ("1000 0 9000", True), ("1001 0 9000", False)]
)
def test_limit_is_restored_once_usage_fits(used, moved):
    limit = "/proc/sys/fs/file-max"
    on, files = recorded((limit, "1000", "9000"), **{"fs__file-max": "9000", "fs__file-nr": used})
    assert (need(on, files) is not None) is moved
    said = f"fall back once less is in use, or at a boot: {limit} (1001 in use, 1000 before)"
    assert any(text.endswith(said) for text in pending(on, files)) is not moved


def test_value_missing_from_the_kernel_is_refused():
    on, files = tuned()
    there = {path: text for path, text in files.values.items() if path != SWAPPINESS}
    with pytest.raises(HostError, match="this kernel does not have it"):
        needed(on, replace(files, values=there))


# ---- the kernel's command line ----

WISH = ("intel_iommu=on", "iommu=pt")


def booted(
    cmdline: str, recorded: tuple[str, ...] = (), reboot: str = "allowed", loader: str = "grub"
) -> Any:
    on, files = tuned()
    on = replace(on, plan=replace(on.plan, kernel=KernelPlan(WISH, reboot)))
    text = role_files(on.plan, "topology")[0]
    plan = {text.path: FileState(text.text, text.mode, text.owner, text.group)}
    lines = (f"loader {loader}", f"cmdline {cmdline}", *(f"recorded {parameter}" for parameter in recorded))
    return on, replace(files, files={**files.files, **plan}, said={**files.said, "kernel_cmdline": lines})


@pytest.mark.parametrize(
    ("loader", "said", "remedy"),
    [
        ("kernelstub", "kernelstub keeps", "kernelstub --add-options 'intel_iommu=on'"),
        ("systemd-boot", "systemd-boot starts", "add intel_iommu=on to /etc/kernel/cmdline"),
        ("none", "neither update-grub nor grubby", "by other means"),
    ],
)
def test_unsupported_boot_loader_is_named_with_a_remedy(loader, said, remedy):
    on, files = booted("iommu=pt", loader=loader)
    with pytest.raises(HostError, match=said) as refused:
        needed(on, files)
    assert remedy in str(refused.value.remedy)
    on, files = booted("intel_iommu=on iommu=pt", loader=loader)
    assert need(on, files) is None


def test_active_parameters_need_nothing():
    assert need(*booted("root=/dev/sda intel_iommu=on iommu=pt quiet")) is None


def test_missing_parameter_needs_a_reboot_in_the_same_drain():
    on, files = booted("root=/dev/sda iommu=pt")
    transaction = needed(on, files)
    assert names(transaction) == ["kernel_cmdline", "reboot"]
    assert transaction.drains
    assert transaction.moves == ("kernel command line: + intel_iommu=on",)
    assert "the node reboots" in transaction.sentences


def test_acs_is_proved_only_after_the_boot_that_sets_it():
    on, files = booted("root=/dev/sda iommu=pt")
    acs = AcsPlan(masks={"0000:17:00.0": "xx000x0"}, bridges={"0000:17:00.0": "1000:c030"})
    assert "pcie_acs" not in names(needed(on, files))
    planned = replace(on.plan, acs=acs)
    on = replace(on, plan=planned)
    text = role_files(planned, "topology")[0]
    plan = {text.path: FileState(text.text, text.mode, text.owner, text.group)}
    files = replace(files, files={**files.files, **plan})
    assert names(needed(on, files)) == ["kernel_cmdline", "reboot", "pcie_acs"]
    lines = ("loader grub", "cmdline root=/dev/sda iommu=pt intel_iommu=on")
    assert need(on, replace(files, said={**files.said, "kernel_cmdline": lines})) is None


def test_parameter_of_an_earlier_plan_is_removed():
    transaction = needed(*booted("intel_iommu=on iommu=pt nosmt", recorded=("nosmt", *WISH)))
    assert part(transaction, "kernel_cmdline").data["removed"] == "nosmt\n"


def test_parameter_is_matched_as_a_whole_word():
    assert names(needed(*booted("xintel_iommu=on iommu=pt"))) == ["kernel_cmdline", "reboot"]


ANOTHER = ("running 6.1", "menu menu", "kernel /boot/vmlinuz-6.12", "next another", "version 6.12")
UNKNOWN = ("running 6.1", "next unknown", "menu menu", "unknown the default, x, is none of its entries")


def about_to_boot(*said: str, next_kernel: str = "running") -> tuple[Goal, NodeState]:
    on, files = booted("quiet")
    on = replace(on, plan=replace(on.plan, kernel=KernelPlan(WISH, "allowed", next_kernel)))
    return on, replace(files, said={**files.said, "reboot": said})


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        pytest.param(ANOTHER, "a reboot would start /boot/vmlinuz-6.12, and 6.1 runs", id="another-kernel"),
        pytest.param(UNKNOWN, "the default, x, is none of its entries", id="a-kernel-that-is-not-known"),
    ],
)
def test_reboot_into_another_kernel_is_refused(said, refusal):
    with pytest.raises(HostError, match=refusal) as refused:
        needed(*about_to_boot(*said))
    assert refused.value.where == "kernel.next_kernel"
    assert "kernel.next_kernel: any" in str(refused.value.remedy)


def test_another_kernel_is_booted_if_the_profile_allows_any():
    transaction = needed(*about_to_boot(*ANOTHER, next_kernel="any"))
    assert part(transaction, "reboot").settings["REBOOT_KERNEL"] == "any"
    assert "the node reboots, into the kernel 6.12" in transaction.sentences


def test_another_kernel_without_a_loaded_driver_is_refused():
    with pytest.raises(HostError, match="which has no module nvidia, mlx5_core"):
        needed(*about_to_boot(*ANOTHER, "lacks-nvidia yes", "lacks-mlx5_core yes", next_kernel="any"))


def test_node_without_a_boot_loader_reboots_and_its_kernel_is_proved():
    transaction = needed(*about_to_boot("running 6.1", "next unknown", "menu none", "unknown no boot loader"))
    assert part(transaction, "reboot").settings["REBOOT_KERNEL"] == "running"


def test_parameters_are_booted_once_if_the_boot_loader_supports_it():
    on, files = booted("quiet")
    lines = (*files.said["kernel_cmdline"], "once yes")
    transaction = needed(on, replace(files, said={**files.said, "kernel_cmdline": lines}))
    assert part(transaction, "kernel_cmdline").settings["CMDLINE_ONCE"] == "yes"


def test_run_reports_when_parameters_cannot_be_booted_once():
    on, files = booted("quiet")
    lines = (*files.said["kernel_cmdline"], "not-once GRUB cannot write to /boot/grub (lvm)")
    transaction = needed(on, replace(files, said={**files.said, "kernel_cmdline": lines}))
    assert part(transaction, "kernel_cmdline").settings["CMDLINE_ONCE"] == "no"
    assert any("not once on trial: GRUB cannot write" in said for said in transaction.sentences)


def test_replaced_parameter_returns_when_ours_is_removed():
    recorded = ("isolcpus=1 instead-of isolcpus=2",)
    on, files = booted("iommu=pt intel_iommu=on isolcpus=1", recorded, loader="grubby")
    data = part(needed(on, files), "kernel_cmdline").data
    assert (data["removed"], data["restored"]) == ("isolcpus=1\n", "isolcpus=2\n")


def test_replaced_parameter_is_remembered_while_ours_stays():
    on, files = booted("iommu=pt", recorded=("iommu=pt instead-of iommu=soft",))
    data = part(needed(on, files), "kernel_cmdline").data
    assert (data["replaced"], data["restored"]) == ("iommu=pt instead-of iommu=soft\n", "")


def test_forbidden_reboot_leaves_parameters_pending_and_unwritten():
    on, files = booted("iommu=pt", reboot="never")
    assert need(on, files) is None
    assert pending(on, files) == (
        "pending: the kernel's command line (intel_iommu=on to come); maintenance.reboot is never",
    )


# ---- what libraries are told ----

ADMINS_CONF = "# ours\nNCCL_DEBUG=WARN\n"


def libraries_target(previous: Goal | None = None, **libraries: bool) -> Goal:
    """Return the plan of a host with an /etc/nccl.conf of its admin, planned after `previous`."""
    machine = replace(dgx(nccl_conf=ADMINS_CONF), previous_plan=dumps(previous.plan) if previous else None)
    plan = plan_node(machine, load_profile({"name": "t", "rdma": {"libraries": libraries}}))
    return Goal(plan, machine, frozenset(["topology", "rdma"]))


def told(on: Goal, texts: Mapping[str, str]) -> dict[str, str | None]:
    """Return the texts that are written on a host that has these, None for a file that goes."""
    states = {path: FileState(text, "0644", "root", "root") for path, text in texts.items()}
    transaction = need(on, NodeState(states, (), values={}, unit=not_asked))
    changed = transaction.parts[0].changed if transaction else ()
    return {change.path: change.new and change.new.text for change in changed if change.path != PLAN_PATH}


def test_admins_nccl_conf_is_restored_when_ours_is_removed():
    ours = libraries_target(nccl_conf=True, env_file=True)
    written = told(ours, {NCCL_CONF_PATH: ADMINS_CONF})
    assert sorted(written) == [NCCL_CONF_PATH, RAILS_ENV_PATH]
    texts = {path: text for path, text in written.items() if text}
    assert told(ours, texts) == {}
    gone = libraries_target(ours)
    assert told(gone, texts) == {NCCL_CONF_PATH: ADMINS_CONF, RAILS_ENV_PATH: None}
    assert told(gone, {NCCL_CONF_PATH: ADMINS_CONF}) == {}


def test_foreign_nccl_conf_is_left_alone():
    assert told(libraries_target(), {NCCL_CONF_PATH: ADMINS_CONF}) == {}


# ---- whether pods are there, and not what the kubelet's unit says of itself ----


@cases(
    "unit, pods, drains",
    {
        "runs": (RUNNING, Pods(), True),
        "starts-over-and-over": (Unit("activating", "auto-restart", ("curl",)), Pods(), True),
        "stops-just-now": (Unit("deactivating", "stop-sigterm", ("curl",)), Pods(), True),
        "stopped-without-pods": (STOPPED, Pods(), False),
        "failed-without-pods": (Unit("failed", "failed", ("curl",)), Pods(), False),
        "stopped-with-a-pod-that-lives": (STOPPED, Pods(alive=("process 7",)), True),
        "failed-with-pods-left": (Unit("failed", "failed", ("curl",)), Pods(left=("/p",)), True),
        "stopped-and-nothing-is-known": (STOPPED, Pods(unknown=("why",)), True),
        "a-kubelet-of-no-unit": (NO_SYSTEMD, Pods(kubelets=("process 8",)), True),
    },
)
def test_drain_follows_the_evidence_of_pods(unit, pods, drains):
    on = target(PROFILE, "kubelet", "hugepages")
    assert needed(on, replace(found(on, {POOL: 3}), pods=pods), unit).drains is drains


ALIVE = Pods(alive=("process 7 (sleep) in /kubepods.slice",))


@pytest.mark.parametrize(
    ("unit", "pods", "says"),
    [
        pytest.param(STOPPED, ALIVE, "its unit is inactive", id="stopped"),
        pytest.param(Unit("failed", "failed", ()), ALIVE, "its unit is failed", id="failed"),
        pytest.param(STOPPED, Pods(left=("/p",)), "its unit is inactive", id="stopped-with-pods-left"),
        pytest.param(STOPPED, Pods(), "", id="no-pods-to-end"),
        pytest.param(RUNNING, ALIVE, "", id="runs-under-another-name"),
        pytest.param(Unit("activating", "auto-restart", ()), ALIVE, "", id="starts-over-and-over"),
        pytest.param(STOPPED, ALIVE.with_kubelet("process 9 (kubelet)"), "", id="runs-without-its-unit"),
        pytest.param(STOPPED, Pods(unknown=("it cannot be read",)), "", id="not-seen"),
        pytest.param(NO_SYSTEMD, ALIVE, "", id="systemd-does-not-answer"),
    ],
)
def test_drain_is_useless_without_a_running_kubelet(unit, pods, says):
    on = target(PROFILE, "kubelet", "hugepages")
    refused = needed(on, replace(found(on, {POOL: 3}), pods=pods), unit).undrainable
    assert (says in refused) if says else refused == ""
