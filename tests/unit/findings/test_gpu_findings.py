"""Each rule about GPUs applies to the kinds of machines that it is made for, and to no other."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from numaforge.findings.engine import Verdict
from numaforge.findings.gpus.rules import RULES
from numaforge.machine.topology.model import (
    Ecc,
    FabricState,
    Gpu,
    GpuPartition,
    GpuProcess,
    HugepagePool,
    NodeTopology,
    NumaNode,
    NvidiaDriver,
    NvidiaInstall,
    PciLink,
    RasErrors,
    RemappedRows,
)
from numaforge.machine.topology.read import read_topology
from tests.fixtures import judged as by
from tests.fixtures.gpu_machines import COMPLETED, FABRIC_MANAGER, KINDS, gpu
from tests.fixtures.machines import GIB
from tests.machines.files import stored

ANY_GPU = "NG103 NG104"
SEVERAL = "NG602"
DRIVER = f"{ANY_GPU} NG101 NG102 NG105 NG201 NG202 NG601"
REAL = f"{DRIVER} NG108 NG403 NG404 NG405"
CARD = f"{REAL} NG402 NG501 NG502"
ECC_ON = "NG401 NG406 NG407"
GRACE = f"{REAL} NG106 {ECC_ON} NG402 NG503 NG701 NG703 NG704"
HBM = f"{CARD} {ECC_ON} NG503"
FABRIC = "NG304 NG305"
BASEBOARD = f"{HBM} NG109 NG203 NG301 NG306"
SUBNET = "NG302 NG303"

APPLIES = {
    "hgx-a100": f"{SEVERAL} {BASEBOARD} NG107",
    "hgx-h100": f"{SEVERAL} {BASEBOARD} {FABRIC} NG107",
    "hgx-b200": f"{SEVERAL} {BASEBOARD} {FABRIC} {SUBNET} NG106",
    "dgx-b300": f"{SEVERAL} {BASEBOARD} {FABRIC} {SUBNET} NG106",
    "gb200-nvl72-tray": f"{SEVERAL} {GRACE} {FABRIC} NG109 NG306",
    "gh200": GRACE,
    "a100-pcie": f"{SEVERAL} {HBM} NG107",
    "h100-pcie": f"{SEVERAL} {HBM} NG107",
    "l40s-pcie": f"{SEVERAL} {CARD} NG107",
    "h100-pcie-bridges": f"{SEVERAL} {HBM} NG107",
    "vgpu-guest": f"{DRIVER} NG107",
    "passthrough-guest": f"{REAL} NG107 {ECC_ON} NG402 NG503",
    "b200-passthrough-guest": f"{SEVERAL} {REAL} {FABRIC} NG106 {ECC_ON} NG402 NG503",
    "hgx-h100-all-mig": f"{SEVERAL} {HBM} NG107 NG109",
    "kvm-host": "",
    "mi300x": "NG501 NG502 NG805",
    "no-gpu": "",
    "desktop": "",
}
UNKNOWN = {
    "mi300x": "NG806",  # its driver's counters were not read
    "b200-passthrough-guest": "NG203 NG301 NG302 NG303",  # its fabric manager may run beside it
    "hgx-h100-all-mig": "NG203 NG301",  # nothing is said of fabric managers where no GPU has a peer
    "kvm-host": "NG109 NG501 NG502",  # its guests have the GPUs, and no driver here says what they are
}


def with_verdict(machine: NodeTopology, *verdicts: Verdict) -> set[str]:
    return by.with_verdict(RULES, machine, *verdicts)


def alarms(machine: NodeTopology) -> dict[str, list[str | None]]:
    return by.found(RULES, machine)


@pytest.mark.parametrize("kind", KINDS)
def test_rule_applies_only_to_its_machine_kinds_and_a_sound_one_raises_no_alarm(kind):
    machine = KINDS[kind]()
    assert alarms(machine) == {}
    assert with_verdict(machine, Verdict.PASSED) == set(APPLIES[kind].split())
    assert with_verdict(machine, Verdict.UNKNOWN) == set(UNKNOWN.get(kind, "").split())


def without_answers(machine: NodeTopology) -> NodeTopology:
    """Return the machine as sysfs alone shows it."""
    bare = tuple(
        Gpu(gpu.pci_address, gpu.vendor, gpu.device, gpu.numa_node, driver=gpu.driver, link=gpu.link)
        for gpu in machine.gpus
    )
    return replace(machine, gpus=bare, nvidia=None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "older",
    [
        pytest.param(lambda machine: replace(machine, nvidia_install=None), id="no files of the driver"),
        pytest.param(lambda machine: replace(machine, nvidia_install=NvidiaInstall()), id="nothing in them"),
        pytest.param(without_answers, id="no answer of NVML"),
        pytest.param(
            lambda machine: replace(without_answers(machine), nvidia_install=None), id="sysfs alone"
        ),
    ],
)
def test_facts_missing_from_a_capture_raise_no_alarm(kind, older):
    assert alarms(older(KINDS[kind]())) == {}


@pytest.mark.parametrize("name", ["nvidia-gb200-tray", "nvidia-gh200", "epyc-9654-8-h100-nps4"])
def test_machine_captured_without_drivers_raises_no_alarm(name):
    assert alarms(read_topology(stored(name).snapshot())) == {}


Sicken = Callable[[NodeTopology], NodeTopology]


@dataclass(frozen=True)
class Case:
    """A sound kind, what goes wrong with it, and what is found."""

    kind: str
    sicken: Sicken
    evidence: str


CPX = GpuPartition("CPX", "NPS4", count=8, named="amdgpu_xcp_")


def in_cpx(machine: NodeTopology) -> NodeTopology:
    """Return the machine with AMD's GPUs in one hive, each in eight partitions."""
    counted = (RasErrors("umc", 0, 0),)
    gpus = (replace(gpu, partition=CPX, ras=counted, xgmi_hive="1") for gpu in machine.gpus)
    return replace(machine, gpus=tuple(gpus))


def second(**fields: object) -> Sicken:
    """Change the second GPU, or the only one."""

    def sicken(machine: NodeTopology) -> NodeTopology:
        number = min(1, len(machine.gpus) - 1)
        changed = replace(machine.gpus[number], **fields)
        return replace(machine, gpus=(*machine.gpus[:number], changed, *machine.gpus[number + 1 :]))

    return sicken


def install(**fields: object) -> Sicken:
    return lambda machine: replace(machine, nvidia_install=replace(machine.nvidia_install, **fields))


def both(one: Sicken, other: Sicken) -> Sicken:
    return lambda machine: other(one(machine))


IMEX_HOST = GpuProcess("nvidia-imex", unit="nvidia-imex.service")
IMEX_POD = GpuProcess("nvidia-imex", pod="12345678-0000-4000-8000-000000000000")
TRAY = "gb200-nvl72-tray"
CLUSTER = "00112233-4455-6677-8899-aabbccddeeff"


def in_one_clique(machine: NodeTopology) -> NodeTopology:
    return replace(machine, gpus=tuple(replace(gpu, fabric=f"{CLUSTER}.1") for gpu in machine.gpus))


def with_memory(size: int, pools: dict[str, HugepagePool]) -> Sicken:
    """Give the machine a NUMA node that firmware keeps for a GPU."""
    node = NumaNode(1, frozenset(), size, {}, pools, generic_initiator=True)
    return lambda machine: replace(machine, numa_nodes=(*machine.numa_nodes, node))


def upgraded(machine: NodeTopology) -> NodeTopology:
    """Return it with a driver whose default is another one, and a kubelet that remembers NUMA nodes."""
    state = {"memory_manager_state": '{"policyName":"Static"}'}
    versions = {"loaded": "615.10.01", "on_disk": "615.10.01", "library": "615.10.01"}
    newer = install(**versions)(machine)
    return replace(
        newer,
        nvidia=NvidiaDriver("615.10.01"),
        kubelet=replace(newer.kubelet, state_files=state) if newer.kubelet else None,
    )


AS_NUMA_NODES = install(gpu_memory_mode="numa", gpu_memory_mode_next="numa")

SICK = {
    "NG101": Case(
        "h100-pcie",
        lambda machine: replace(machine, nvidia=NvidiaDriver(None, error="Driver/library version mismatch")),
        "NVML says: Driver/library version mismatch",
    ),
    "NG102": Case("hgx-a100", second(unanswered="GPU is lost"), "GPU is lost"),
    "NG103": Case("l40s-pcie", second(driver=None, uuid=None, index=None), "no kernel driver has it"),
    "NG104": Case("a100-pcie", second(driver="nouveau", uuid=None), "nouveau has it"),
    "NG105": Case(
        "gh200",
        install(nouveau_kept_out=False),
        "neither modprobe.d nor the kernel's command line keeps nouveau out",
    ),
    "NG106": Case("gh200", install(open_module=False), "the proprietary module 580.95.05 is loaded"),
    "NG107": Case("l40s-pcie", install(open_module=False), "the proprietary module 580.95.05 is loaded"),
    "NG108": Case("l40s-pcie", second(persistence=False), "persistence is off"),
    "NG109": Case(
        "hgx-b200",
        lambda machine: replace(machine, gpus=machine.gpus[:-1]),
        "7 GPUs where a whole board has 8",
    ),
    "NG201": Case(
        "a100-pcie",
        install(library="580.105.08"),
        "the module that runs is 580.95.05, libnvidia-ml is 580.105.08",
    ),
    "NG202": Case(
        "vgpu-guest",
        install(on_disk="580.105.08"),
        "the module that runs is 580.95.05, the next one to load is 580.105.08",
    ),
    "NG203": Case(
        "hgx-h100",
        install(packages={"nvidia-fabricmanager-580": "580.82.07"}),
        "nvidia-fabricmanager-580 is 580.82.07, the driver is 580.95.05",
    ),
    "NG204": Case(
        TRAY,
        install(packages={"nvidia-imex": "580.82.07"}),
        "nvidia-imex is 580.82.07, the driver is 580.95.05",
    ),
    "NG301": Case(
        "hgx-h100",
        install(daemons=()),
        "no process nv-fabricmanager runs, neither on the host nor in a container",
    ),
    "NG302": Case(
        "dgx-b300",
        install(daemons=(FABRIC_MANAGER,)),
        "no process nvlsm runs, neither on the host nor in a container",
    ),
    "NG303": Case("hgx-b200", install(kernel_modules=("mlx5_ib", "nvidia")), "ib_umad is not loaded"),
    "NG304": Case(
        "hgx-h100",
        second(fabric_state=FabricState("in-progress")),
        "its registration is in-progress",
    ),
    "NG305": Case(
        TRAY,
        second(fabric_state=replace(COMPLETED, faults=("degraded bandwidth",))),
        "degraded bandwidth",
    ),
    "NG306": Case("hgx-a100", second(nvlinks=10), "10 of 12 NVLinks are up"),
    "NG307": Case(
        TRAY,
        install(daemons=(IMEX_HOST, IMEX_POD)),
        "an nvidia-imex of a pod and one of the host run side by side",
    ),
    "NG308": Case(
        TRAY,
        install(imex_nodes=0),
        "nvidia-imex.service is enabled, and its list of nodes is empty",
    ),
    "NG309": Case(
        TRAY,
        second(fabric=f"{CLUSTER}.2"),
        f"2 cliques: {CLUSTER}.1 has 0000:10:00.0, 0000:30:00.0, 0000:40:00.0; {CLUSTER}.2 has 0000:20:00.0",
    ),
    "NG310": Case(
        TRAY,
        install(imex_service="enabled", imex_nodes=18),
        "nvidia-imex.service is enabled, and takes no commands of the DRA driver",
    ),
    "NG401": Case("a100-pcie", second(ecc=Ecc(False, False)), "ECC is off"),
    "NG402": Case("l40s-pcie", second(ecc=Ecc(False, True)), "ECC is off, and on after a reset"),
    "NG403": Case(
        "l40s-pcie",
        second(remapped_rows=RemappedRows(0, 1, True, False)),
        "a row of its memory waits to be remapped",
    ),
    "NG404": Case(
        "passthrough-guest",
        second(remapped_rows=RemappedRows(0, 8, False, True)),
        "a row of its memory could not be remapped",
    ),
    "NG405": Case("gh200", second(recovery_action="drain-and-reset"), "the driver asks for: drain-and-reset"),
    "NG406": Case(
        "hgx-h100",
        second(ecc=Ecc(True, True, 2, 2)),
        "2 uncorrected errors of its memory since the driver was loaded",
    ),
    "NG407": Case(
        "a100-pcie", second(ecc=Ecc(True, True, 0, 1)), "1 uncorrected error of its memory in earlier times"
    ),
    "NG501": Case("mi300x", second(link=PciLink(32.0, 8, 32.0, 16)), "its PCIe link has 8 of 16 lanes"),
    "NG502": Case(
        "h100-pcie",
        second(link=PciLink(8.0, 16, 32.0, 16), pids=(4711,)),
        "its PCIe link runs at 8 of 32 GT/s, with processes on it",
    ),
    "NG503": Case(
        "passthrough-guest",
        second(mig_pending="enabled"),
        "MIG mode is disabled, and enabled after a reset",
    ),
    "NG601": Case(
        "vgpu-guest",
        install(char_links=False),
        "/dev/char has no links to NVIDIA's devices, and there is no CDI specification",
    ),
    "NG602": Case(
        "hgx-h100",
        second(device="2335", name="NVIDIA H200"),
        "NVIDIA H200 beside 7 x NVIDIA H100 80GB HBM3",
    ),
    "NG701": Case(
        TRAY,
        both(install(gpu_memory_mode=""), with_memory(744 * GIB, {})),
        "NVreg_CoherentGPUMemoryMode is not set: branch 615 takes driver, branches before 615 take numa, "
        "which moves 744Gi of the node's memory, and the kubelet's memory manager is Static",
    ),
    "NG702": Case(
        "gh200",
        with_memory(96 * GIB, {"2Mi": HugepagePool(512, 512)}),
        "NUMA nodes 1 have 96Gi of GPUs' memory, and pools of 512 x 2Mi are taken of it",
    ),
    "NG703": Case(TRAY, second(mig_mode="enabled", mig_pending="enabled"), "MIG is enabled"),
    "NG704": Case(
        "gh200",
        install(gpu_memory_mode_next="numa"),
        "the module that runs has driver (NVreg_CoherentGPUMemoryMode is driver), modprobe.d asks for numa",
    ),
    "NG705": Case(
        "gh200",
        install(daemons=()),
        "no process nvidia-persistenced runs, neither on the host nor in a container",
    ),
    "NG801": Case(
        "mi300x",
        second(partition=replace(CPX, compute=None)),
        "its driver does not report its compute mode",
    ),
    "NG802": Case(
        "mi300x",
        second(partition=replace(CPX, compute="QPX", count=4)),
        "it is in qpx_nps4, others of its hive in cpx_nps4",
    ),
    "NG803": Case(
        "mi300x",
        second(partition=replace(CPX, count=None)),
        "the kernel's KFD has not the partitions that CPX makes",
    ),
    "NG804": Case(
        "mi300x",
        second(partition=replace(CPX, named="amdgpu_xcp.")),
        "the kernel names its partitions amdgpu_xcp.N",
    ),
    "NG805": Case("mi300x", second(numa_node=None), "the kernel knows no NUMA node for it (-1)"),
    "NG806": Case("mi300x", second(ras=(RasErrors("umc", 2, 0),)), "umc: 2 uncorrected errors"),
}

# What a rule looks at that is not there on every machine to which it is made to apply.
SOUND = {
    "NG204": install(imex_service="enabled", packages={"nvidia-imex": "580.95.05"}, imex_nodes=18),
    "NG307": install(compute_domains=True, imex_service="masked", daemons=(IMEX_POD,)),
    "NG308": install(imex_service="enabled", imex_nodes=18, packages={"nvidia-imex": "580.95.05"}),
    "NG309": in_one_clique,
    "NG310": install(
        compute_domains=True,
        imex_service="masked",
        imex_commands=False,
        packages={"nvidia-imex": "580.95.05"},
    ),
    "NG701": upgraded,
    "NG702": AS_NUMA_NODES,
    "NG705": AS_NUMA_NODES,
    **dict.fromkeys([f"NG80{number}" for number in range(1, 7)], in_cpx),
}


def test_every_rule_has_a_faulty_machine():
    assert list(SICK) == [rule.id for rule in RULES]


ONE_GPU = (
    "NG102 NG103 NG104 NG108 NG304 NG305 NG306 NG401 NG402 NG403 NG404 NG405 NG406 NG407 NG501 NG502 NG503 "
    "NG602"
)
"""Rules that name the GPU by its PCI address."""


@pytest.mark.parametrize("rule", SICK)
def test_rule_passes_the_sound_machine_and_alone_catches_the_faulty(rule):
    case = SICK[rule]
    sound = SOUND.get(rule, lambda machine: machine)(KINDS[case.kind]())
    assert rule in with_verdict(sound, Verdict.PASSED)
    assert alarms(sound) == {}
    sick = case.sicken(sound)
    findings = by.judged(RULES, sick)[rule].findings
    assert [finding.evidence for finding in findings] == [case.evidence]
    assert with_verdict(sick, Verdict.FOUND) == {rule}
    if rule in ONE_GPU:
        assert findings[0].where == sound.gpus[min(1, len(sound.gpus) - 1)].pci_address


def of_models(*devices: str) -> NodeTopology:
    """Return a server with a card of each PCI device id."""
    machine = KINDS["l40s-pcie"]()
    cards = (gpu(number, device) for number, device in enumerate(devices))
    return replace(machine, gpus=tuple(cards))


H100, H200, L40S, T4 = "2330", "2335", "26b9", "1eb8"


MODELS = {
    "one model": ([H100, H100, H100], []),
    "one GPU": ([H100], []),
    "the odd one is named": ([H100, H200, H100, H100], [(1, "NVIDIA H200 beside 3 x NVIDIA H100 80GB HBM3")]),
    "each of several odd ones is named": (
        [L40S, H100, H100, T4],
        [
            (0, "NVIDIA L40S beside 2 x NVIDIA H100 80GB HBM3, 1 x NVIDIA T4"),
            (3, "NVIDIA T4 beside 1 x NVIDIA L40S, 2 x NVIDIA H100 80GB HBM3"),
        ],
    ),
    "none is odd": ([H100, H200], [(None, "1 x NVIDIA H100 80GB HBM3, 1 x NVIDIA H200")]),
    "as many of each": ([T4, H100, T4, H100], [(None, "2 x NVIDIA T4, 2 x NVIDIA H100 80GB HBM3")]),
}


@pytest.mark.parametrize(("devices", "expected"), MODELS.values(), ids=MODELS)
def test_minority_gpu_model_is_named(devices, expected):
    findings = by.judged(RULES, machine := of_models(*devices))["NG602"].findings
    places = {each.pci_address: number for number, each in enumerate(machine.gpus)}
    assert [(places.get(each.where), each.evidence) for each in findings] == expected


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"driver": "vfio-pci", "uuid": None, "index": None}, id="a guest has the other one"),
        pytest.param({"driver": None, "uuid": None, "index": None}, id="no driver has the other one"),
        pytest.param({"vendor": "1002", "driver": "amdgpu"}, id="it is another plugin's"),
    ],
)
def test_gpu_not_offered_by_the_plugin_does_not_count_as_another_model(other):
    machine = second(device=T4, **other)(of_models(H100, H100, H100))
    assert by.judged(RULES, machine)["NG602"].findings == ()


HARMLESS = {
    "a GPU at rest is slow by itself": ("l40s-pcie", second(link=PciLink(2.5, 16, 16.0, 16)), "NG502"),
    "a guest's PCIe is made by the hypervisor": (
        "passthrough-guest",
        second(link=PciLink(2.5, 1, 32.0, 16)),
        "NG501",
    ),
    "a card has as many links as it has bridges": ("h100-pcie-bridges", second(nvlinks=8), "NG306"),
    "MIG mode takes the links down": (
        "hgx-a100",
        second(nvlinks=0, mig_mode="enabled", mig_pending="enabled"),
        "NG306",
    ),
    "a GPU in MIG mode has no peers": (
        "hgx-h100",
        second(fabric_state=FabricState("not-started"), mig_mode="enabled", mig_pending="enabled"),
        "NG304",
    ),
    "a tray without any IMEX daemon": (TRAY, install(daemons=()), "NG307"),
    "the DRA driver uses the host's IMEX daemon": (
        TRAY,
        install(compute_domains=True, imex_service="enabled", imex_nodes=18, daemons=(IMEX_HOST,)),
        "NG307",
    ),
    "a host-managed daemon takes commands of the DRA driver": (
        TRAY,
        install(compute_domains=True, imex_service="enabled", imex_nodes=18, imex_commands=True),
        "NG310",
    ),
    "an older snapshot does not say whether it takes commands": (
        TRAY,
        install(compute_domains=True, imex_service="enabled", imex_nodes=18, imex_commands=None),
        "NG310",
    ),
    "no DRA driver is here": (
        TRAY,
        install(compute_domains=False, imex_service="enabled", imex_nodes=18, imex_commands=False),
        "NG310",
    ),
    "a fabric manager in a container brings its own version": ("hgx-h100", install(packages={}), "NG203"),
    "CDI": ("gh200", install(char_links=False, cdi_specs=("/etc/cdi/nvidia.yaml",)), "NG601"),
}


@pytest.mark.parametrize(("kind", "change", "rule"), HARMLESS.values(), ids=HARMLESS)
def test_harmless_conditions_raise_no_false_alarm(kind, change, rule):
    machine = change(KINDS[kind]())
    assert rule not in with_verdict(machine, Verdict.FOUND)


def test_driver_library_failure_is_not_also_reported_as_lost_gpus():
    error = "Driver/library version mismatch"
    machine = KINDS["hgx-h100"]()
    silent = tuple(replace(gpu, uuid=None, unanswered=error) for gpu in machine.gpus)
    broken = replace(machine, gpus=silent, nvidia=NvidiaDriver(None, error=error))
    assert with_verdict(broken, Verdict.FOUND) == {"NG101"}


def test_unregistered_fabric_names_missing_kernel_modules():
    failed = second(fabric_state=FabricState("in-progress"))(KINDS["hgx-b200"]())
    judgement = by.judged(RULES, install(kernel_modules=("mlx5_ib", "nvidia"))(failed))["NG304"]
    evidence = [finding.evidence for finding in judgement.findings]
    assert evidence == ["its registration is in-progress: ib_umad is not loaded"]


STATES = {
    FabricState("completed", "Not Supported"): {"NG304"},
    FabricState("not-started"): {"NG304"},
    **{FabricState("completed", word): set() for word in ("Success", "SUCCESS", "success")},
}


@pytest.mark.parametrize(("state", "rules"), STATES.items(), ids=str)
def test_fabric_is_sound_only_after_successful_completion(state, rules):
    assert {*alarms(second(fabric_state=state)(KINDS["hgx-h100"]()))} == rules


def boards(kind: str, count: int, *cards: str) -> NodeTopology:
    """Return a kind with so many GPUs of its board, and cards of these models beside it."""
    machine = KINDS[kind]()
    first = machine.gpus[0]
    gpus = [replace(first, pci_address=f"{number:04x}:01:00.0") for number in range(count)]
    others = [
        replace(first, pci_address=f"{number:04x}:02:00.0", device=card) for number, card in enumerate(cards)
    ]
    return replace(machine, gpus=(*gpus, *others))


SURPLUS = "{} GPUs of one model are more than boards that are known have"
BOARDS = {
    "two cards beside it": (boards("hgx-h100", 8, "27b8", "27b8"), Verdict.PASSED, None),
    "a card is no GPU of the board": (boards("hgx-h100", 7, "27b8"), Verdict.FOUND, None),
    "two boards": (boards("hgx-h100", 16), Verdict.PASSED, None),
    "more than any board": (boards("hgx-h100", 17), Verdict.UNKNOWN, SURPLUS.format(17)),
    "three of four in a tray": (boards(TRAY, 3), Verdict.FOUND, None),
    "more than any tray": (boards(TRAY, 5), Verdict.UNKNOWN, SURPLUS.format(5)),
}


@pytest.mark.parametrize(("machine", "verdict", "reason"), BOARDS.values(), ids=BOARDS)
def test_surplus_gpus_are_not_reported_missing(machine, verdict, reason):
    judgement = by.judged(RULES, machine)["NG109"]
    assert judgement.verdict is verdict
    assert reason is None or judgement.reason == reason


def test_all_gpus_count_as_lost_without_the_driver_link():
    machine = KINDS["hgx-h100"]()
    bare = {"driver": None, "uuid": None, "name": None, "unanswered": "GPU is lost"}
    lost = tuple(replace(gpu, index=number, **bare) for number, gpu in enumerate(machine.gpus))
    found = alarms(replace(machine, gpus=lost))
    assert {rule: len(places) for rule, places in found.items()} == {"NG102": 8}


def test_current_errors_are_not_counted_as_earlier_errors():
    machine = second(ecc=Ecc(True, True, 2, 5))(KINDS["a100-pcie"]())
    (finding,) = by.judged(RULES, machine)["NG407"].findings
    assert finding.evidence == "3 uncorrected errors of its memory in earlier times"
