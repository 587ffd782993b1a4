"""One case for each rule that keeps a kubelet from starting, with the text it dies with."""

from __future__ import annotations

import pytest

from numaforge.kubelet.startup import check, effective_config
from tests.fixtures.machines import lab_node

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
STATIC = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'
RUN = "failed to run Kubelet: "
POLICY = f"{RUN}new static policy error: "
INVALID = "failed to validate kubelet configuration, error: invalid configuration: "
PANIC = "panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: "
GATES = "failed to set feature gates from initial flags-based config: "


def options(*names: str, gates: str = "") -> str:
    wanted = ", ".join(f'{name}: "true"' for name in names)
    return f"{STATIC}cpuManagerPolicyOptions: {{{wanted}}}\n{gates}"


ALPHA = "featureGates: {CPUManagerPolicyAlphaOptions: true}\n"


@pytest.mark.parametrize(
    ("version", "body", "error"),
    [
        pytest.param(
            "1.31",
            "featureGates: {TopologyManager: true}\n",
            f"{GATES}unrecognized feature gate: TopologyManager",
            id="a removed gate, before defaults looked at gates",
        ),
        pytest.param(
            "1.33",
            "featureGates: {CPUManager: true}\n",
            f"{PANIC}unrecognized feature gate: CPUManager",
            id="a removed gate",
        ),
        pytest.param(
            "1.36",
            "featureGates: {TopologyManagerPolicyOptions: false}\n",
            f"{PANIC}cannot set feature gate TopologyManagerPolicyOptions to false, feature is locked to "
            "true",
            id="a locked gate",
        ),
        pytest.param(
            "1.36",
            "featureGates: {DRADeviceTaintRules: true, DRADeviceTaints: false}\n",
            f"{PANIC}DRADeviceTaintRules is enabled, but depends on features that are disabled: "
            "[DRADeviceTaints]",
            id="a gate that needs another",
        ),
        pytest.param(
            "1.32",
            f"{options('full-pcpus-only')}featureGates: {{CPUManagerPolicyOptions: false}}\n",
            f"{RUN}CPU Manager policy options map[full-pcpus-only:true] require feature gates "
            '"CPUManager", "CPUManagerPolicyOptions" enabled',
            id="options without their umbrella gate",
        ),
        pytest.param(
            "1.36",
            options("full-pcpu-only"),
            f'{POLICY}unknown CPU Manager Policy option: "full-pcpu-only"',
            id="an unknown option",
        ),
        pytest.param(
            "1.31",
            options("strict-cpu-reservation"),
            f'{POLICY}unknown CPU Manager Policy option: "strict-cpu-reservation"',
            id="an option of a newer kubelet",
        ),
        pytest.param(
            "1.32",
            options("strict-cpu-reservation"),
            f"{POLICY}CPU Manager Policy Alpha-level Options not enabled, but option "
            '"strict-cpu-reservation" provided',
            id="an alpha option without its gate",
        ),
        pytest.param(
            "1.36",
            options("full-pcpus-only", "distribute-cpus-across-cores", gates=ALPHA),
            f"{POLICY}static policy options full-pcpus-only and distribute-cpus-across-cores can not be "
            "used at "
            "the same time",
            id="a forbidden pair",
        ),
        pytest.param(
            "1.36",
            f"{STATIC}cpuManagerPolicyOptions: {{full-pcpus-only: 'yes'}}\n",
            f'{POLICY}bad value for option "full-pcpus-only": strconv.ParseBool: parsing "yes": invalid '
            "syntax",
            id="yes is no boolean",
        ),
        pytest.param(
            "1.36",
            "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n",
            f"{RUN}new none policy error: None policy: received unsupported "
            "options=map[full-pcpus-only:true]",
            id="options under policy none",
        ),
        pytest.param(
            "1.36",
            f"{options('align-by-socket', gates=ALPHA)}topologyManagerPolicy: single-numa-node\n",
            f"{POLICY}Topolgy manager single-numa-node policy is incompatible with CPUManager "
            "align-by-socket "
            "policy option",
            id="sockets against single NUMA nodes",
        ),
        pytest.param(
            "1.36", "cpuManagerPolicy: Static\n", f'{RUN}unknown policy: "Static"', id="a capital too many"
        ),
        pytest.param(
            "1.36", "memoryManagerPolicy: static\n", f'{RUN}unknown policy: "static"', id="a capital too few"
        ),
        pytest.param(
            "1.31",
            "memoryManagerPolicy: BestEffort\n",
            f'{RUN}unknown policy: "BestEffort"',
            id="no BestEffort yet",
        ),
        pytest.param(
            "1.32",
            "memoryManagerPolicy: BestEffort\n",
            f'{RUN}policy "BestEffort" is not available for platform "linux"',
            id="BestEffort is for Windows",
        ),
        pytest.param(
            "1.36",
            "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: "
            "{max-allowable-numa-nodes: '7'}\n",
            f'{RUN}the minimum value of "max-allowable-numa-nodes" should not be less than 8',
            id="a NUMA limit below the default",
        ),
        pytest.param(
            "1.32",
            "topologyManagerPolicy: x\n",
            f'{INVALID}topologyManagerPolicy (--topology-manager-policy) "x" must be one of: '
            '["none" "best-effort" "restricted" "single-numa-node"]',
            id="an unknown topology policy",
        ),
        pytest.param(
            "1.36",
            "kubeReserved: {hugepages-2Mi: 2Mi}\n",
            f'{RUN}--kube-reserved value failed to parse: cannot reserve "hugepages-2Mi" resource',
            id="hugepages cannot be reserved",
        ),
        pytest.param(
            "1.36",
            "memoryManagerPolicy: Static\nkubeReserved: {memory: 1436Mi}\n"
            "reservedMemory: [{numaNode: 0, limits: {memory: 1.5Gi}}]\n",
            f"{RUN}could not covert a variable of type Quantity to int64",
            id="a fraction in reservedMemory",
        ),
        pytest.param(
            "1.36",
            "evictionSoft: {memory.available: 1Gi}\n",
            f"{RUN}failed to create kubelet: grace period must be specified for the soft eviction threshold "
            "memory.available",
            id="a soft threshold without its grace period",
        ),
        pytest.param(
            "1.30",
            "enforceNodeAllocatable: [x]\n",
            f'{INVALID}option "x" specified for enforceNodeAllocatable (--enforce-node-allocatable). Valid '
            "options "
            'are "pods", "system-reserved", "kube-reserved", or "none"',
            id="an unknown enforcement, older wording",
        ),
        pytest.param(
            "1.29",
            "memorySwap: {swapBehavior: NoSwap}\nfeatureGates: {NodeSwap: true}\n",
            f'{INVALID}memorySwap.swapBehavior "NoSwap" must be one of: "", "LimitedSwap", or '
            '"UnlimitedSwap"',
            id="swap behaviours of 1.29",
        ),
        pytest.param(
            "1.36",
            "logging: {format: xml}\n",
            'initialize logging: logging.format: Invalid value: "xml": Unsupported log format',
            id="logging comes before validation",
        ),
        pytest.param(
            "1.36",
            "kubeReserved: {cpu: '1000'}\n",
            'invalid Node Allocatable configuration. Resource "cpu" has a reservation of '
            "{{1000 0} {<nil>}  DecimalSI} but capacity of {{CAPACITY -3} {<nil>}  DecimalSI}. Expected "
            "capacity >= "
            "reservation.",
            id="more CPUs reserved than there are",
        ),
    ],
)
def test_dies_with(version: str, body: str, error: str) -> None:
    topology = lab_node()
    report = check(HEADER + body, topology=topology, version=version)
    assert report.error == error.replace("CAPACITY", str(1000 * len(topology.online)))


@pytest.mark.parametrize("version", ["1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"])
def test_every_minor_starts_with_its_defaults(version: str) -> None:
    assert check(HEADER, topology=lab_node(), version=version).starts


def test_gates_of_flags_add_to_those_of_the_file() -> None:
    effective = effective_config(
        f"{HEADER}featureGates: {{AllAlpha: false}}\n", {}, ["--feature-gates=AllBeta=false"]
    )
    assert effective["featureGates"] == {"AllAlpha": False, "AllBeta": False}


def test_all_validation_errors_come_together() -> None:
    report = check(f"{HEADER}maxPods: -1\nport: -1\n", topology=lab_node(), version="1.36")
    assert [finding.path for finding in report.findings if finding.id == "NF110"] == ["maxPods", "port"]
    assert (report.error or "").startswith("failed to validate kubelet configuration, error: [invalid")


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        pytest.param(["--nope"], "unknown flag: --nope", id="an unknown flag"),
        pytest.param(
            ["-max-pods=3"], "unknown shorthand flag: 'm' in -max-pods=3", id="one dash is a shorthand"
        ),
        pytest.param(["--max-pods"], "flag needs an argument: --max-pods", id="a flag without its value"),
        pytest.param(
            ["--max-pods=x"],
            'invalid argument "x" for "--max-pods" flag: strconv.ParseInt: parsing "x": invalid syntax',
            id="not a number",
        ),
        pytest.param(
            ["--reserved-memory=0:memory"],
            'invalid argument "0:memory" for "--reserved-memory" flag: the reserved limit has incorrect '
            "value, "
            "expected type=quantity, got memory",
            id="a reservation without a quantity",
        ),
        pytest.param(
            ["--eviction-hard=memory.available"],
            'invalid argument "memory.available" for "--eviction-hard" flag: malformed pair, expect '
            "string<string",
            id="a threshold without a value",
        ),
    ],
)
def test_command_lines_that_cannot_be_parsed(flags: list[str], error: str) -> None:
    report = check(HEADER, topology=lab_node(), version="1.36", flags=flags)
    assert report.error == f"failed to parse kubelet flag: {error}"


def test_labels_that_a_kubelet_may_not_set() -> None:
    report = check(
        HEADER, topology=lab_node(), version="1.36", flags=["--node-labels=kubernetes.io/role=gpu"]
    )
    assert (
        "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [kubernetes.io/role]"
        in (report.error or "")
    )
    allowed = ["--node-labels=node.kubernetes.io/pool=gpu,example.com/role=gpu"]
    assert check(HEADER, topology=lab_node(), version="1.36", flags=allowed).starts
