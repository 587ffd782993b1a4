"""What `check` says beyond the recorded cases: warnings, places, minors, embedding documents."""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from numaforge.findings import Severity
from numaforge.kubelet import findings
from numaforge.kubelet.findings import RULES, Report
from numaforge.kubelet.startup.check import check
from numaforge.lib.errors import KubeletConfigError
from numaforge.machine.topology.model import (
    Core,
    CpuStates,
    Gpu,
    HugepagePool,
    NodeTopology,
    NumaNode,
    Package,
)
from tests.fixtures.kubelet_texts import settings_of
from tests.fixtures.machines import with_cpu_states, with_gaps
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

GIB = 2**30
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def node(cores_per_node: int = 4, nodes: int = 2, memory: int = 16 * GIB, **changes: Any) -> NodeTopology:
    """Two NUMA nodes with four cores of two threads: core c has the CPUs c and c + 8."""
    total = cores_per_node * nodes
    cores = tuple(
        Core(c // cores_per_node, c // cores_per_node, frozenset({c, c + total})) for c in range(total)
    )
    cpus = [frozenset().union(*(core.cpus for core in cores if core.numa_node == n)) for n in range(nodes)]
    topology = NodeTopology(
        hostname="n1",
        architecture="x86_64",
        kernel=None,
        kernel_cmdline=None,
        memory_bytes=memory * nodes,
        swap_bytes=0,
        cgroup_version=2,
        kubelet=None,
        cpus=CpuStates(online=frozenset().union(*cpus), offline=frozenset(), isolated=frozenset()),
        packages=tuple(Package(n, cpus[n]) for n in range(nodes)),
        numa_nodes=tuple(
            NumaNode(n, cpus[n], memory, dict.fromkeys(range(nodes), 10), {}) for n in range(nodes)
        ),
        cores=cores,
        l3_caches=(),
        cpufreq=None,
        gpus=(),
        nics=(),
        pci_paths={},
    )
    return replace(topology, **changes)


def gpu(index: int, numa_node: int) -> Gpu:
    return Gpu(f"0000:{index:02x}:00.0", "10de", "2330", numa_node)


def run(body: str, version: str = "1.36", topology: NodeTopology | None = None, **options: Any) -> Report:
    return check(HEADER + body, topology=topology or node(), version=version, **options)


def ids(report: Report) -> list[str]:
    return [finding.id for finding in report.findings]


def finding(report: Report, rule: str) -> Any:
    return next(each for each in report.findings if each.id == rule)


STATIC = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0,8"\n'
MEMORY = "memoryManagerPolicy: Static\nkubeReserved: {memory: 1Gi}\n"


SYSTEMD = "cgroupDriver: systemd\n"
OWN_SLICE = (
    f"{SYSTEMD}enforceNodeAllocatable: [pods, system-reserved]\nsystemReserved: {{cpu: '1'}}\n"
    "systemReservedCgroup: /own.slice/own-daemons.slice\n"
)
ISOLATED = with_cpu_states(node(), isolated=frozenset({2, 3, 4, 5}))
FOUR_GPUS = replace(node(), gpus=tuple(gpu(index, 0) for index in range(4)))
NO_PAUSE = "cpuManagerReconcilePeriod: -1s\n"
SHARE = f"{MEMORY}evictionHard: {{memory.available: 5%}}\n"


def reserved(*cpus: str, options: str = "") -> str:
    return STATIC.replace("0,8", ",".join(cpus)) + options


def on_one_node(memory: str) -> str:
    return f"reservedMemory: [{{numaNode: 0, limits: {{memory: '{memory}'}}}}]\n"


def with_cpus(version: str, shared: str, held: str) -> dict[str, Any]:
    """Whole cores are wanted where a container has CPUs already."""
    entries = {"uid": {"main": held}}
    state = {"policyName": "static", "defaultCpuSet": shared, "entries": entries, "checksum": 0}
    body = reserved("0", options='cpuManagerPolicyOptions: {full-pcpus-only: "true"}\n')
    return {"version": version, "body": body, "state_files": {"cpu_manager_state": json.dumps(state)}}


@cases(
    "given, rule, said",
    {
        **{rule: ({"body": body}, finding, "") for rule, (body, finding) in CASES["warned_about"].items()},
        **{
            rule: ({"version": version, "body": body}, finding, said)
            for rule, (version, body, finding, said) in CASES["of_another_minor"].items()
        },
        "a part of one core is reserved": ({"body": reserved("0")}, "NF506", "1 core is reserved in part"),
        "parts of two are": ({"body": reserved("0-1")}, "NF506", "2 cores are reserved in part"),
        "four GPUs beside two free cores": (
            {"body": reserved("0-1,8-9"), "topology": FOUR_GPUS},
            "NF508",
            "NUMA node 0 has 4 GPUs",
        ),
        "no pause by the flag": (
            {"body": STATIC, "flags": ["--cpu-manager-reconcile-period=0"]},
            "NF522",
            "",
        ),
        "no pause by a negative period": ({"body": STATIC + NO_PAUSE}, "NF522", "without a pause"),
        "a pause of a millisecond": ({"body": STATIC + NO_PAUSE.replace("-1s", "1ms")}, "NF522", "every 1ms"),
        "a pause of a second": ({"body": STATIC + NO_PAUSE.replace("-1s", "1s")}, "NF522", None),
        "a cgroup driver in another case": ({"body": "cgroupDriver: Systemd\n"}, "NF526", "Systemd"),
        "a second document": ({"body": "---\nmaxPods: 5\n"}, "NF527", "first document alone"),
        "nothing in it": ({"body": "---\n# end\n"}, "NF527", None),
        "a flag's name as a field": ({"body": "reservedCpus: '0'\n"}, "NF501", ""),
        "zero in the file becomes 10s": ({"body": STATIC + NO_PAUSE.replace("-1s", "0s")}, "NF522", None),
        "no pause without the static policy": ({"body": NO_PAUSE}, "NF522", None),
        "all isolated CPUs are for pods": ({"body": STATIC, "topology": ISOLATED}, "NF523", "CPUs 2-5 "),
        "the reserved ones are not": (
            {"body": reserved("0", "2-3", "8"), "topology": ISOLATED},
            "NF523",
            " CPUs 4-5 ",
        ),
        "without the static policy pods share all": (
            {"body": "", "topology": ISOLATED},
            "NF523",
            "CPUs 2-5 ",
        ),
        "all isolated CPUs are reserved": (
            {"body": reserved("0", "2-5", "8"), "topology": ISOLATED},
            "NF523",
            None,
        ),
        "a sum by the visible memory": ({"body": SHARE + on_one_node("2791728768")}, "NF524", ""),
        "a sum of fixed amounts": ({"body": MEMORY + on_one_node("1124Mi")}, "NF524", None),
        "no cgroup is named": ({"body": ""}, "NF603", None),
        "one that is not enforced": ({"body": "kubeReservedCgroup: /kubelet.slice\n"}, "NF603", None),
        "a slice of the administrator's own": (
            {"body": OWN_SLICE},
            "NF603",
            "/sys/fs/cgroup/own.slice/own-daemons.slice ",
        ),
        "the root of all pods": ({"body": "cgroupRoot: /pods\n"}, "NF603", "/sys/fs/cgroup/pods "),
        "an odd number of CPUs is kept from 1.37 on": (
            with_cpus("1.37", "0,2-15", "1"),
            "NF520",
            "main (1); they keep",
        ),
        "and refused by 1.36": (
            with_cpus("1.36", "0,2-15", "1"),
            "NF520",
            "without a multiple of 2 CPUs (SMTAlignmentError)",
        ),
        "two halves are kept by 1.36": (with_cpus("1.36", "0,3-15", "1-2"), "NF520", "main (1-2); they keep"),
        "whole cores are no halves": (with_cpus("1.37", "0,2-8,10-15", "1,9"), "NF520", None),
    },
)
def test_risky_but_valid_setting_is_a_warning(given: dict[str, Any], rule: str, said: str | None) -> None:
    report = run(**given)
    assert report.starts, report.error
    found = [each.evidence for each in report.findings if each.id == rule]
    assert len(found) == (said is not None)
    assert all(str(said) in message for message in found)
    assert RULES[rule].severity == ("note" if rule == "NF603" else "warning")


def test_wrong_memory_sum_shows_its_parts_and_a_correct_share():
    body = f"{MEMORY}systemReserved: {{memory: 512Mi}}\n"
    body += "reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}]\n"
    remedy = finding(run(body), "NF215").remedy
    assert "1636Mi (kubeReserved 1Gi + systemReserved 512Mi + evictionHard 100Mi)" in remedy
    assert remedy.endswith("for example 818Mi on each of the NUMA nodes 0-1")


@cases("body, rules", CASES["later_errors"])
def test_later_startup_errors_are_reported_too(body, rules):
    report = run(body)
    errors = [each for each in report.findings if each.severity is Severity.ERROR]
    assert [each.id for each in errors] == rules
    assert [each.evidence.startswith("what would come next: ") for each in errors] == [
        False,
        *[True] * (len(rules) - 1),
    ]
    assert str(errors[0].text) in str(report.error)


def test_file_that_is_not_decoded_comes_behind_the_gate_that_a_flag_sets():
    report = run("maxPods: many\n", flags=["--feature-gates=Own=true"])
    assert [each.id for each in report.findings] == ["NF101", "NF004"]
    assert report.findings[1].evidence.startswith("what would come next: the value is text")
    assert (report.readable, report.effective) == (True, {})


@cases("version, side, body, error", CASES["impossible_cgroups"])
def test_impossible_cgroups_are_refused(version, side, body, error):
    report = run(body, version)
    assert report.error == f"Failed to enforce {side} Reserved Cgroup Limits on {error}"
    assert "NF112" in ids(report)


@pytest.mark.parametrize(
    ("version", "written", "kept"),
    [
        pytest.param("1.36", "1500500u", "1500500u", id="as written before 1.37"),
        pytest.param("1.37", "1500500u", "1501m", id="half up"),
        pytest.param("1.37", "1500499u", "1500m", id="less than half down"),
        pytest.param("1.37", "2", "2", id="whole CPUs"),
    ],
)
def test_reserved_cpus_are_rounded_to_thousandths(version, written, kept):
    assert run(f"kubeReserved: {{cpu: '{written}'}}\n", version).reservation["cpu"] == kept


@cases(
    "body",
    {
        "nothing set": "",
        "whole cores reserved": STATIC,
        "restricted with the static policy": f"{STATIC}topologyManagerPolicy: restricted\n",
        "reservedMemory that sums up": (
            f"{STATIC}{MEMORY}reservedMemory: [{{numaNode: 0, limits: {{memory: 1124Mi}}}}]\n"
        ),
    },
)
def test_sound_configurations_have_no_findings(body):
    report = run(body)
    assert report.starts
    assert ids(report) == []


def test_misspelt_or_newer_field_names_the_remedy_and_its_line():
    found = finding(run("maxPods: 50\ncpuManagerPolicyOption: {}\n"), "NF501")
    assert ("cpuManagerPolicyOptions" in found.remedy, found.line) == (True, 4)
    assert "1.33" in finding(run("mergeDefaultEvictionSettings: true\n", version="1.32"), "NF501").remedy


def test_uneven_threads_hand_out_the_reserved_thread():
    whole = node()
    cores = (replace(whole.cores[0], cpus=frozenset({0})), *whole.cores[1:])
    online = whole.online - {8}
    numa = (replace(whole.numa_nodes[0], cpus=whole.numa_nodes[0].cpus - {8}), whole.numa_nodes[1])
    topology = with_cpu_states(replace(whole, cores=cores, numa_nodes=numa), online=online)
    body = 'cpuManagerPolicy: static\nreservedSystemCPUs: "1"\n'
    assert "1" in finding(run(body, topology=topology), "NF505").evidence
    full = run(f'{body}cpuManagerPolicyOptions: {{full-pcpus-only: "true"}}\n', topology=topology)
    assert "1 or 2 threads, and the kubelet counts 1" in finding(full, "NF525").evidence


def test_a_kubelet_that_panics_does_not_start():
    body = f"{STATIC}topologyManagerPolicy: %s\n"
    body += 'topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}\n'
    report = run(body % "restricted", topology=with_gaps(node()))
    assert (report.starts, report.error) == (False, "panic: runtime error: index out of range")
    assert "(0,2)" in finding(report, "NF210").evidence
    assert run(body % "restricted").starts
    assert run(body % "single-numa-node", topology=with_gaps(node())).starts


def test_flag_overrides_the_file_with_a_finding():
    report = run("maxPods: 50\n", flags=["--max-pods=20"])
    assert finding(report, "NF509").where == "--max-pods"
    assert report.effective["maxPods"] == 20


def test_flag_mistake_names_the_flag():
    report = run("", flags=["--reserved-cpus=0,99"])
    assert finding(report, "NF201").where == "--reserved-cpus"


def test_drop_in_mistake_names_file_and_line():
    report = run("", drop_ins={"10-a.conf": f"{HEADER}maxPods: -1\n"}, drop_in_dir="/d")
    found = finding(report, "NF110")
    assert (found.file, found.line) == ("/d/10-a.conf", 3)


def test_ignored_drop_in_file_is_reported():
    report = run("", drop_ins={"10-a.yaml": "maxPods: -1\n"})
    assert report.starts
    assert "NF514" in ids(report)


def test_hugepages_in_reserved_memory_are_refused():
    pools = {"2Mi": HugepagePool(512, 512)}
    whole = node()
    topology = replace(whole, numa_nodes=tuple(replace(each, hugepages=pools) for each in whole.numa_nodes))
    limits = "{memory: 1124Mi, hugepages-2Mi: 1Gi}"
    report = run(f"{MEMORY}reservedMemory: [{{numaNode: 0, limits: {limits}}}]\n", topology=topology)
    assert not report.starts
    assert "hugepages-2Mi" in finding(report, "NF216").remedy


def test_swap_keeps_a_default_kubelet_from_starting():
    report = run("", topology=replace(node(), swap_bytes=GIB))
    assert report.error == (
        "failed to run Kubelet: running with swap on is not supported, please disable swap or set "
        "--fail-swap-on flag to false"
    )
    assert run("failSwapOn: false\n", topology=replace(node(), swap_bytes=GIB)).starts


@pytest.mark.parametrize(("version", "starts"), [("1.34", True), ("1.35", False)])
def test_cgroup_v1_is_refused_from_1_35(version, starts):
    report = run("", version=version, topology=replace(node(), cgroup_version=1))
    assert report.starts is starts


def test_newer_minor_is_treated_as_the_latest_with_a_notice():
    report = run(STATIC, version="v1.41.0")
    assert report.starts
    assert finding(report, "NF601").severity == "note"


@pytest.mark.parametrize("version", ["1.27", "latest", "", "36", "2.0"])
def test_invalid_kubelet_version_is_refused(version):
    with pytest.raises(KubeletConfigError):
        run("", version=version)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: b: c\n", id="not YAML"),
        pytest.param("", id="empty"),
        pytest.param("apiVersion: v1\nkind: Pod\n", id="a pod"),
        pytest.param("- 1\n", id="a list"),
        pytest.param("kind: KubeletConfiguration\n", id="no apiVersion"),
    ],
)
def test_text_other_than_a_kubelet_configuration_is_unreadable(text):
    report = check(text, topology=node(), version="1.36")
    assert not report.starts
    assert not report.readable


OPENSHIFT = """\
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: x}
spec:
  kubeletConfig:
    cpuManagerPolicy: static
    reservedSystemCPUs: '0,99'
"""
OPENSHIFT_ITEM = """\
apiVersion: v1
kind: List
items:
- {apiVersion: machineconfiguration.openshift.io/v1, kind: KubeletConfig, spec: {kubeletConfig: {
  cpuManagerPolicy: static, reservedSystemCPUs: '0,99'}}}
"""
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
data:
  kubelet: |
    apiVersion: kubelet.config.k8s.io/v1beta1
    kind: KubeletConfiguration
    reservedSystemCPUs: '0,99'
"""
CONFIG_MAP_ITEM = f"kind: List\nitems:\n- {CONFIG_MAP.replace(chr(10), chr(10) + '  ')}\n"
KUBEADM = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n---\n"
SEVERAL = f"{KUBEADM}{HEADER}reservedSystemCPUs: '0,99'\n"


@cases(
    "text, line, where",
    {
        "an OpenShift KubeletConfig": (OPENSHIFT, 7, "OpenShift"),
        "one within a list": (OPENSHIFT_ITEM, 5, "items[0]."),
        "kubeadm's ConfigMap": (CONFIG_MAP, 7, "kubelet"),
        "a ConfigMap with another key": (
            CONFIG_MAP.replace("kubelet: |", "worker.yaml: |"),
            7,
            "worker.yaml",
        ),
        "one within a list too": (CONFIG_MAP_ITEM, 9, "items[0]."),
        "kubeadm's file of several documents": (SEVERAL, 6, ""),
        "an answer of /configz": ('{"kubeletconfig":\n{"reservedSystemCPUs": "0,99"}}', 2, "kubeletconfig"),
    },
)
def test_configuration_inside_another_document_keeps_line_numbers(text, line, where):
    report = check(text, topology=node(), version="1.33")
    assert finding(report, "NF201").line == line
    said = [f"{each.where} {each.evidence}" for each in report.findings if each.id == "NF602"]
    assert where in "".join(said)


@cases(
    "text, numbers",
    {
        "two of OpenShift": (f"{OPENSHIFT}---\n{OPENSHIFT.replace('0,99', '0,88')}", ["99", "88"]),
        "two within a list": (f"{OPENSHIFT_ITEM}{OPENSHIFT_ITEM.partition('items:')[2]}", ["99", "99"]),
        "two keys of a ConfigMap": (
            f"{CONFIG_MAP}{CONFIG_MAP.partition('data:')[2].strip(chr(10)).replace('kubelet:', 'other:')}",
            ["99", "99"],
        ),
    },
)
def test_each_of_several_embedded_configurations_is_checked(text, numbers):
    reports = [check(text, topology=node(), version="1.33", number=number) for number in range(len(numbers))]
    assert [number in str(report.error) for number, report in zip(numbers, reports, strict=True)] == [
        True
    ] * 2
    assert [report.further for report in reports] == [True, False]


@cases(
    "field, remedy",
    {
        "a flag of another name": ("reservedCpus", "did you mean reservedSystemCPUs?"),
        "a flag that is no field": ("nodeLabels", "the kubelet has it as a flag alone: --node-labels"),
        "in another case": ("cpumanagerpolicy", "did you mean cpuManagerPolicy?"),
        "a typing mistake": ("topologyManagerPolcy", "did you mean topologyManagerPolicy?"),
    },
)
def test_unknown_field_has_its_right_name_as_remedy(field, remedy):
    assert finding(run(f"{field}: x\n"), "NF501").remedy == remedy


def test_misplaced_openshift_settings_are_named():
    text = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nspec:\n  maxPods: 5\n"
    report = check(text, topology=node(), version="1.33")
    assert not report.readable
    assert "spec.kubeletConfig" in finding(report, "NF002").remedy


LIST = "- {name: reserved-cpus, value: '0-1'}"
MAP = "reserved-cpus: '0-1'"


def kubeadm(version, kind, arguments):
    registration = f"nodeRegistration:\n  kubeletExtraArgs:\n    {arguments}\n"
    return f"apiVersion: kubeadm.k8s.io/{version}\nkind: {kind}\n{registration}"


@cases(
    "version, kind, arguments, flags, starts",
    {
        "a list, of v1beta4": ("v1beta4", "InitConfiguration", LIST, [], True),
        "a map, of v1beta3": ("v1beta3", "JoinConfiguration", MAP, [], True),
        "a later flag wins": ("v1beta3", "JoinConfiguration", MAP, ["--reserved-cpus="], False),
        "of a kind that has no such field": ("v1beta3", "ClusterConfiguration", MAP, [], False),
    },
)
def test_kubeadm_extra_args_are_kubelet_flags(version, kind, arguments, flags, starts):
    text = f"{kubeadm(version, kind, arguments)}---\n{HEADER}cpuManagerPolicy: static\n"
    assert check(text, topology=node(), version="1.34", flags=flags).starts is starts


@cases(
    "version, arguments, problem",
    {
        "a map, of v1beta4": ("v1beta4", MAP, "v1beta4 has a list of {name: FLAG, value: TEXT}"),
        "a list, of v1beta3": ("v1beta3", LIST, "v1beta3 has FLAG: TEXT pairs"),
        "a value without quotes": (
            "v1beta3",
            "fail-swap-on: false",
            "the value of fail-swap-on is not a text",
        ),
    },
)
def test_kubeadm_extra_args_that_kubeadm_does_not_decode_are_refused(version, arguments, problem):
    with pytest.raises(KubeletConfigError, match=re.escape(problem)):
        check(kubeadm(version, "JoinConfiguration", arguments), topology=node(), version="1.34")


@cases("flag, rule, remedy", CASES["remedies_of_flags"])
def test_remedy_of_a_flag_names_what_the_kubelet_takes(flag, rule, remedy):
    text = f"{HEADER}cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"
    assert finding(check(text, topology=node(), version="1.35", flags=[flag]), rule).remedy == remedy


@cases(
    "text, said",
    {
        "kubeadm's": (
            kubeadm("v1beta4", "JoinConfiguration", "- {name: topology-manager-policy, value: numa}"),
            '"numa" must be one of',
        ),
        "a config.yaml of RKE2": ("kubelet-arg: [cpu-manager=true]\n", "unknown flag: --cpu-manager"),
        "an environment file": ("# ours\nKUBELET_EXTRA_ARGS=--v=2 --reserved-cpus=99\n", "reserved-cpus: 99"),
        "a drop-in of the kubelet's unit": (
            '[Service]\nEnvironment="KUBELET_EXTRA_ARGS=--reserved-cpus=99"\nExecStart=\n',
            "reserved-cpus: 99",
        ),
        "MicroK8s' arguments": ("--root-dir=${SNAP}/k\n--reserved-cpus='99'\n", "reserved-cpus: 99"),
        "EKS' script": (
            "#!/bin/sh\nbootstrap.sh c \\\n --kubelet-extra-args '--reserved-cpus=99' --x y\n",
            "reserved-cpus: 99",
        ),
    },
)
def test_file_with_only_flags_is_checked(text, said):
    report = check(text, topology=node(), version="1.34")
    assert not report.starts
    assert said in str(report.error)


def test_settings_are_the_base_then_drop_ins_then_flags():
    effective = settings_of(
        f"{HEADER}maxPods: 10\nkubeReserved: {{memory: 1Gi}}\n",
        {
            "20-b.conf": f"{HEADER}maxPods: 30\n",
            "10-a.conf": f"{HEADER}maxPods: 20\nkubeReserved: {{cpu: '1'}}\nevictionHard: "
            "{memory.available: 1Gi}\n",
        },
        ["--v=4"],
        "1.34",
    )
    assert effective["maxPods"] == 30
    assert effective["kubeReserved"] == {"memory": "1Gi", "cpu": "1"}
    assert effective["evictionHard"]["nodefs.available"] == "10%"
    assert effective["logging"]["verbosity"] == 4


@pytest.mark.parametrize(
    ("version", "held"),
    [
        pytest.param("1.31", {"memory": "1Gi"}, id="null deletes nothing up to 1.31"),
        pytest.param("1.32", None, id="null deletes from 1.32 on"),
    ],
)
def test_null_in_a_drop_in_deletes_from_1_32(version, held):
    drop_ins = {"10-a.conf": f"{HEADER}kubeReserved: null\n"}
    effective = settings_of(f"{HEADER}kubeReserved: {{memory: 1Gi}}\n", drop_ins, (), version)
    assert effective.get("kubeReserved") == held


def test_merging_a_drop_in_does_not_affect_the_next_check():
    kind = '"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"'
    text = f'{{{kind}, "maxPods": 110.0}}'  # 110 where drop-ins are merged as JSON, no integer in a main file
    run("", drop_ins={"10-a.conf": text})
    assert "cannot unmarshal number 110.0 into" in str(check(text, topology=node(), version="1.36").error)


def test_feature_gates_of_flags_and_file_are_merged():
    effective = settings_of(
        f"{HEADER}featureGates: {{AllAlpha: false}}\n", {}, ["--feature-gates=AllBeta=false"]
    )
    assert effective["featureGates"] == {"AllAlpha": False, "AllBeta": False}


def test_relative_path_resolves_beside_the_file():
    effective = settings_of(
        f"{HEADER}staticPodPath: manifests\nauthentication: {{x509: {{clientCAFile: pki/ca.crt}}}}\n"
    )
    assert effective["staticPodPath"] == "/var/lib/kubelet/manifests"
    assert effective["authentication"]["x509"]["clientCAFile"] == "/var/lib/kubelet/pki/ca.crt"


def test_all_validation_errors_are_reported_together():
    report = run("maxPods: -1\nport: -1\n")
    assert [finding.where for finding in report.findings if finding.id == "NF110"] == ["maxPods", "port"]
    assert (report.error or "").startswith("failed to validate kubelet configuration, error: [invalid")


@pytest.mark.parametrize(("text", "pods"), [("0x10", 16), ("010", 8), ("1_000", 1000), ("+5", 5)])
def test_flag_numbers_accept_go_notation(text, pods):
    report = run("", flags=[f"--max-pods={text}"])
    assert report.effective["maxPods"] == pods


def test_unloadable_configuration_has_no_effective_settings():
    with pytest.raises(KubeletConfigError, match="cannot unmarshal"):
        settings_of(f"{HEADER}maxPods: many\n")


def _texts_used() -> list[tuple[str, str, set[str | None]]]:
    """Return the rule, the name and the values of each text that the code names outright."""
    trees = [
        ast.parse(path.read_text(encoding="utf-8")) for path in Path(findings.__file__).parent.rglob("*.py")
    ]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    by_name = [call for call in calls if getattr(call.func, "id", "") in ("fault", "invalid", "refused_if")]
    words = [(*call.args[:2], *([ast.Constant("main")] if len(call.args) == 1 else [])) for call in by_name]
    return [
        (rule.value, name.value, {keyword.arg for keyword in call.keywords})
        for call, (rule, name) in zip(by_name, words, strict=True)
        if isinstance(rule, ast.Constant) and isinstance(name, ast.Constant)
    ]


def test_findings_have_their_texts_and_values():
    table = json.loads(Path(findings.__file__).with_suffix(".json").read_text(encoding="utf-8"))
    used = _texts_used()
    assert len(used) > 80
    for rule, name, values in used:
        fields = Formatter().parse(" ".join(table[rule]["texts"][name].values()))
        assert {field for _, field, *_ in fields if field} <= values or None in values
