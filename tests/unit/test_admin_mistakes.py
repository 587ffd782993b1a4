"""What admins do by mistake, each ending in one message with the remedy.

No case may end in a traceback, with exit code 70, or after more than some seconds.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from numaforge.cli import run
from numaforge.errors import ExitCode
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.roles.document import to_document as plan_document
from numaforge.topology.document import to_document
from tests.fixtures import machines
from tests.ssh import pyinfra_forks

BAD, NO = ExitCode.BAD_INPUT, ExitCode.NO
LONG = "9" * 5000
CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailSwapOn: false\n"
CHECK = "check FILE --topology topology.json --kubelet-version 1.36"
POD = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x, resources: {limits: {%s}}}]}\n"
ADMIT = "admit FILE --topology topology.json --config config.yaml"
FIT = "fit FILE --topology topology.json --config config.yaml"
PLAN = "plan topology.json --profile ./FILE --kubelet-version 1.36"
PLUGIN = "device-plugin check FILE gpus.json"
STATIC_MEMORY = (
    "memoryManagerPolicy: Static\nsystemReserved: {memory: 412Mi}\n"
    "reservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}]"
)
MEMORY_STATE = '{"policyName":"Static","machineState":{"0":{}},"entries":{"p":%s}}'


@dataclass(frozen=True)
class Mistake:
    """A command with FILE in it, what that file says, how it ends, and a part of the message."""

    words: str
    text: str
    message: str
    code: int = BAD
    name: str = "file.yaml"
    files: Mapping[str, str] = field(default_factory=dict)


def config(more: str) -> str:
    return f"{CONFIG}{more}\n"


def replaced(document: object, path: tuple[object, ...], value: object) -> str:
    """Return a JSON document with one value in the place of another."""
    inside = document = json.loads(json.dumps(document))
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return json.dumps(document)


PLANNED = plan_document(plan_node(machines.lab_node(), load_profile("training")))
CUT = to_document(machines.cut_into(("1c.3g.40gb", "1g.10gb"), None))
INSTANCE = ("gpus", 0, "gpu_instances", 0)
ROCKET = '[settings.kubernetes]\ncpu-manager-policy = "static"\n[settings.boot.kernel-parameters]\n'
SHARING = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %s}]}}\n"

MISTAKES = {
    # settings of the kubelet
    "a percentage of 5,000 digits": Mistake(
        CHECK, config(f'qosReserved: {{memory: "{LONG}%"}}'), "invalid number in percentage", NO
    ),
    "a percentage in another script": Mistake(
        CHECK, config('qosReserved: {memory: "٣%"}'), "invalid number in percentage", NO
    ),
    "a quantity of 5,000 zeros and a letter": Mistake(
        CHECK, config(f'kubeReserved: {{memory: "{"0" * 5000}x"}}'), "quantities must match", NO
    ),
    "a quantity of 5,000 nines and GB": Mistake(
        CHECK, config(f'systemReserved: {{memory: "{LONG}GB"}}'), "quantities must match", NO
    ),
    "a reservation in GB": Mistake(CHECK, config("kubeReserved: {memory: 2GB}"), "quantities must match", NO),
    "a reservation with a blank": Mistake(CHECK, config('kubeReserved: {memory: "2 Gi"}'), "quantities", NO),
    "reserved CPUs in words": Mistake(CHECK, config('reservedSystemCPUs: "all"'), "all", NO),
    "reserved CPUs that do not exist": Mistake(
        CHECK, config('cpuManagerPolicy: static\nreservedSystemCPUs: "900"'), "900", NO
    ),
    "reserved CPUs backwards": Mistake(CHECK, config('reservedSystemCPUs: "3-0"'), "3-0", NO),
    "a policy in capitals": Mistake(CHECK, config("cpuManagerPolicy: Static"), "Static", NO),
    "a policy of the other manager": Mistake(
        CHECK, config("memoryManagerPolicy: static"), "memoryManagerPolicy", NO
    ),
    "a topology policy with an underscore": Mistake(
        CHECK, config("topologyManagerPolicy: single_numa_node"), "single_numa_node", NO
    ),
    "an option that is true and no text": Mistake(
        CHECK,
        config("cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: true}"),
        "full-pcpus-only",
        NO,
    ),
    "settings with tabs": Mistake(CHECK, "kind: KubeletConfiguration\n\tmaxPods: 5\n", "line 2"),
    "two documents": Mistake(CHECK, CONFIG + "---\n" + CONFIG, "", ExitCode.YES),
    "the settings of kubeadm": Mistake(
        CHECK, "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n", "ClusterConfiguration"
    ),
    "no kind": Mistake(CHECK, "maxPods: 5\n", "begin the file with apiVersion"),
    "a limit of pods in words": Mistake(CHECK, config("maxPods: many"), "maxPods", NO),
    # state files
    "a pod without containers in a state file": Mistake(
        f"{CHECK} --state-dir state",
        config(STATIC_MEMORY),
        "expected machine state",
        NO,
        files={"state/memory_manager_state": MEMORY_STATE % "null"},
    ),
    "a container without blocks in a state file": Mistake(
        f"{CHECK} --state-dir state",
        config(STATIC_MEMORY),
        "expected machine state",
        NO,
        files={"state/memory_manager_state": MEMORY_STATE % '{"c":null}'},
    ),
    "an empty state file": Mistake(
        f"{CHECK} --state-dir state", config(""), "", NO, files={"state/cpu_manager_state": ""}
    ),
    # pods
    "CPUs of 5,000 digits": Mistake(ADMIT, POD % f'cpu: "{LONG}"', "is not a Kubernetes quantity"),
    "memory in MB": Mistake(ADMIT, POD % "memory: 500MB", "500MB"),
    "a GPU in halves": Mistake(ADMIT, POD % 'nvidia.com/gpu: "0.5"', "nvidia.com/gpu"),
    "CPUs below zero": Mistake(ADMIT, POD % "cpu: -1", "cpu"),
    "a list for limits": Mistake(ADMIT, (POD % "").replace("{}", "[cpu, 1]"), "limits"),
    "no containers": Mistake(ADMIT, "kind: Pod\nmetadata: {name: a}\nspec: {}\n", "containers"),
    "a Service": Mistake(ADMIT, "kind: Service\nmetadata: {name: a}\nspec: {}\n", "Service"),
    "a chart's template": Mistake(ADMIT, "kind: Pod\nmetadata: {name: {{ .Values.name }}}\n", "line 2"),
    "a million replicas": Mistake(
        ADMIT,
        "kind: Deployment\nmetadata: {name: a}\nspec: {replicas: 1000000, template: {spec: {containers: "
        "[{name: x}]}}}\n",
        "write 0 to 10000",
    ),
    "a job of a million pods": Mistake(
        FIT,
        "kind: Job\nmetadata: {name: a}\nspec: {parallelism: 1000000, completions: 1000000, template: {spec: "
        "{containers: [{name: x, resources: {limits: {cpu: 1}}}]}}}\n",
        "write 0 to 10000",
    ),
    # the device plugin
    "a million replicas of a GPU": Mistake(
        PLUGIN, SHARING % 1000000, "write replicas: 8209 or less", ExitCode.YES
    ),
    "replicas of 5,000 digits": Mistake(PLUGIN, SHARING % LONG, "digits"),
    "replicas as a text": Mistake(PLUGIN, SHARING % '"4"', "is not a whole number"),
    "one replica": Mistake(PLUGIN, SHARING % 1, "must be >= 2"),
    "a million replicas in a profile": Mistake(
        PLAN, "device_plugin: {time_slicing: {nvidia.com/gpu: 1000000}}\n", "1024"
    ),
    "the chart's values": Mistake(PLUGIN, "config: {map: {default: x}}\n", "config"),
    "the whole ConfigMap": Mistake(
        PLUGIN,
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: 'version: v1', b: 'version: v1'}\n",
        "name one: --key a or --key b",
    ),
    # files of other tools
    "a parameter that is true": Mistake(
        "convert FILE", f"{ROCKET}audit = true\n", "True is no list", ExitCode.YES, "rocket.toml"
    ),
    "a parameter that is a text": Mistake(
        "convert FILE", f'{ROCKET}isolcpus = "1-3"\n', "'1-3' is no list", ExitCode.YES, "rocket.toml"
    ),
    "a number of 5,000 digits in TOML": Mistake(
        "convert FILE", f"{ROCKET}audit = [{LONG}]\n", "too many digits", name="rocket.toml"
    ),
    "a date that is none in TOML": Mistake(
        "convert FILE", f"{ROCKET}audit = [2025-02-30]\n", "not valid TOML", name="rocket.toml"
    ),
    "TOML that is too deep": Mistake(
        "convert FILE", f"{ROCKET}audit = {'[' * 5000}\n", "not valid TOML", name="rocket.toml"
    ),
    "a sysctl of kubespray that is empty": Mistake(
        "convert FILE", "kubelet_max_pods: 110\nadditional_sysctl: [null]\n", "", ExitCode.YES
    ),
    "a profile of TuneD that is empty": Mistake(
        "convert FILE",
        "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nmetadata: {name: a}\nspec: {profile: [null]}\n",
        "",
        ExitCode.YES,
    ),
    "pages of 5,000 digits": Mistake(
        "convert FILE", f'linuxConfig: {{hugepageConfig: {{hugepage_size1g: "{LONG}"}}}}\n', "number of pages"
    ),
    "pages with a superscript": Mistake(
        "convert FILE", 'linuxConfig: {hugepageConfig: {hugepage_size1g: "²"}}\n', "not a number of pages"
    ),
    # machines
    "a GPU instance before the first slice": Mistake(
        "plan FILE --profile inference-mig --kubelet-version 1.36",
        replaced(CUT, (*INSTANCE, "start"), -1),
        "gpus[0].gpu_instances[0].start: -1 is no memory slice",
    ),
    "a GPU instance of no slices": Mistake(
        "draw FILE",
        replaced(CUT, (*INSTANCE, "size"), 0),
        "gpus[0].gpu_instances[0].size: 0 memory slices",
    ),
    "a NUMA node with less than no memory": Mistake(
        "draw FILE", replaced(CUT, ("numa_nodes", 0, "memory_bytes"), -1), "numa_nodes[0].memory_bytes"
    ),
    "cores of the kubelet that are not there": Mistake(
        "plan FILE --profile cpu-only --kubelet-version 1.36",
        replaced(CUT, ("kubelet_cores",), [{"package": 0, "numa_node": 0, "cpus": "900"}]),
        "kubelet_cores[0].cpus: CPU 900 is not online",
    ),
    "a GPU with a name of 5,000 letters": Mistake(
        "draw FILE", replaced(CUT, ("gpus", 0, "name"), LONG), "<svg", ExitCode.YES
    ),
    # profiles
    "a limit of a sysctl with a superscript": Mistake(
        PLAN, 'tuning: {sysctls: {vm.max_map_count: "²"}}\n', "is no limit"
    ),
    "a limit of a sysctl of 5,000 digits": Mistake(
        PLAN, f'tuning: {{sysctls: {{vm.max_map_count: "{LONG}"}}}}\n', "vm.max_map_count"
    ),
    "an option of 5,000 digits": Mistake(
        PLAN,
        f"kubelet: {{topology_manager_policy: restricted, topology_manager_options: "
        f'{{max-allowable-numa-nodes: "{LONG}"}}}}\n',
        "is not a number",
    ),
    "a share above all": Mistake(PLAN, "hugepages: [{size: 2Mi, share: 120%}]\n", "share"),
    "a page size of no kernel": Mistake(PLAN, "hugepages: [{size: 3Mi, count: 1}]\n", "3Mi"),
    "pages in megabytes": Mistake(PLAN, "hugepages: [{size: 2MB, count: 1}]\n", "2MB"),
    "a CPU that is not there goes offline": Mistake(PLAN, 'cpus: {offline: "900"}\n', "900"),
    "the first CPU goes offline": Mistake(PLAN, 'cpus: {offline: "0"}\n', "CPU 0 stays online"),
    "a key of Kubernetes": Mistake(PLAN, "kubelet: {cpuManagerPolicy: static}\n", "cpuManagerPolicy"),
    "a section twice": Mistake(PLAN, "cpus: {}\ncpus: {}\n", "written twice"),
    "a profile as a list": Mistake(PLAN, "- cpus: {}\n", "list"),
    "a profile of Ansible": Mistake(PLAN, "- hosts: all\n  roles: [numaforge]\n", "list"),
    "a CPU in octal": Mistake(PLAN, "cpus: {offline: 010}\n", "line 1: 010 is octal in YAML; write 8, or"),
    "pages in octal": Mistake(PLAN, "hugepages:\n- {size: 2Mi, count: 0o10}\n", "is not a whole number"),
    "pages with a leading zero": Mistake(PLAN, "hugepages:\n- {size: 2Mi, count: -010}\n", "line 2: -010 is"),
    "pages with an exponent": Mistake(PLAN, "hugepages: [{size: 2Mi, count: 1e3}]\n", "'1e3' is not a whole"),
    "pages and a half": Mistake(PLAN, "hugepages: [{size: 2Mi, count: 4.0}]\n", "4.0 is not a whole number"),
    "a date for CPUs": Mistake(PLAN, "cpus: {offline: 2024-01-01}\n", "'2024-01-01' is not a cpulist"),
    "a time for CPUs": Mistake(PLAN, "cpus: {offline: 1:30}\n", "'1:30' is not a cpulist"),
    "a name that is no": Mistake(PLAN, "name: no\n", "False is not a text; YAML reads on, off, yes and no"),
    "a key that is on": Mistake(PLAN, "on: 2\n", "True is no key; YAML reads on, off, yes and no"),
    "a key that is a number": Mistake(PLAN, "1: 2\n", "1 is no key; write it in quotes"),
    "a key that is nothing": Mistake(PLAN, "~: 2\n", "None is no key; write it in quotes"),
    "a key that is a list": Mistake(
        PLAN, "? [a]\n: 2\n", "line 1: not valid YAML: while constructing a mapping"
    ),
    "a tab before a key": Mistake(
        PLAN, "cpus:\n\toffline: 1\n", "line 2: not valid YAML: indented with a tab"
    ),
    "a name of two lines": Mistake(PLAN, 'name: "a\\nb"\n', "name: 'a\\nb' is not printable, in one line"),
    "a name that colours": Mistake(PLAN, 'name: "a\\e[31m"\n', "is not printable, in one line"),
    "a name of 5,000 letters": Mistake(PLAN, f"name: {'a' * 5000}\n", "is longer than 255 characters"),
    "a name in another script": Mistake(PLAN, "name: 日本\n", "profile 日本", ExitCode.YES),
    "lines that end as in Windows": Mistake(
        PLAN, "name: x\r\nextends: training\r\n", "profile x", ExitCode.YES
    ),
    "a byte order mark": Mistake(PLAN, "\ufeffname: x\n", "profile x", ExitCode.YES),
    "a character of no text": Mistake(PLAN, "name: x\0\n", "line 1: is not a text: it holds U+0000"),
    "two profiles in a file": Mistake(PLAN, "name: a\n---\nname: b\n", "holds 2 documents"),
    "an anchor as a key of ours": Mistake(
        PLAN, "a: &x {cores_per_numa_node: 1}\ncpus: {reserved: *x}\n", "a: unknown key"
    ),
    "a version that is a number": Mistake(
        PLAN, "kubelet: {version: 1.30}\n", 'which turns 1.30 into 1.3; write it in quotes: "1.36"'
    ),
    "two profiles to extend": Mistake(PLAN, "extends: [training, cpu-only]\n", "is not a profile's name"),
    "a profile that extends itself": Mistake(PLAN, "extends: ./file.yaml\n", "goes in a circle"),
    "a profile at an address": Mistake(PLAN, "extends: https://a/b.yaml\n", "No such file or directory"),
    "a percentage of memory": Mistake(PLAN, "memory: {kube_reserved: 10%}\n", "'10%' is not a Kubernetes"),
    "memory with a comma": Mistake(PLAN, 'memory: {kube_reserved: "1,5Gi"}\n', "'1,5Gi' is not a Kubernetes"),
    "memory in small letters": Mistake(PLAN, "memory: {kube_reserved: 2gi}\n", "'2gi' is not a Kubernetes"),
    "memory in thousandths": Mistake(
        PLAN, "memory: {system_reserved: 1m}\n", "'1m' is not a whole, positive number of bytes"
    ),
    "a name of no letter": Mistake(PLAN, 'name: " "\n', "name: ' ' is no name; leave it out"),
    "sections of nothing": Mistake(
        PLAN, "cpus: null\nhugepages: null\nmig: null\n", "profile file", ExitCode.YES
    ),
    "a mapping for pages": Mistake(PLAN, "hugepages: {}\n", "hugepages: {} is not a list"),
    "pages of nothing": Mistake(PLAN, "hugepages: [null]\n", "hugepages[0]: None is not a mapping"),
    "pages in another script": Mistake(PLAN, "hugepages: [{size: 1Gi, count: ٣}]\n", "'٣' is not a whole"),
    "an anchor that is not there": Mistake(
        PLAN, "cpus: *a\n", "line 1: not valid YAML: found undefined alias"
    ),
    "CPUs with a semicolon": Mistake(PLAN, 'cpus: {offline: "1;2"}\n', "'1;2' is neither an id nor a range"),
    "CPUs in another script": Mistake(PLAN, 'cpus: {offline: "٣-٤"}\n', "'٣-٤' is neither an id nor a range"),
    "more cores than there are": Mistake(
        PLAN, "cpus: {reserved: {cores_per_numa_node: 999}}\n", "999 cores are to be reserved on NUMA node 0"
    ),
    "half a core": Mistake(PLAN, 'cpus: {reserved: {cpulist: "0"}}\n', "cuts cores in two"),
    "a GPU cut into nothing": Mistake(PLAN, "mig: {gpus: [{devices: {}}]}\n", "devices: is empty"),
    "a sysctl that is a path": Mistake(PLAN, "tuning: {sysctls: {../etc/passwd: 1}}\n", "is not a sysctl"),
    "a tag that runs a program": Mistake(
        PLAN, "name: !!python/object:os.system x\n", "the tag !!python/object:os.system is not accepted"
    ),
    "text after the end": Mistake(PLAN, "name: x\n...\nfoo\n", "did not find expected <document start>"),
    "a quote that is not closed": Mistake(PLAN, "name: 'unclosed\n", "found unexpected end of stream"),
    "memory below zero": Mistake(PLAN, "memory: {kube_reserved: -1Gi}\n", "'-1Gi' is not a whole, positive"),
    "a pod for a profile": Mistake(PLAN, POD % "cpu: 1", "is a Pod, and no profile"),
    "the kubelet's settings for a profile": Mistake(
        PLAN, CONFIG, "is a KubeletConfiguration, and no profile"
    ),
    "a topology for a profile": Mistake(
        "plan topology.json --profile topology.json", "", "topology.json: is a topology, and no profile"
    ),
    "a plan for a profile": Mistake(
        "plan topology.json --profile plan.json", "", "plan.json: is a plan, and no profile"
    ),
    # pods
    "a GPU without its maker": Mistake(ADMIT, POD % "gpu: 1", "gpu is no resource of Kubernetes"),
    "memory of GiB": Mistake(ADMIT, POD % "memory: 1GiB", "'1GiB' is not a Kubernetes quantity"),
    "memory with an exponent": Mistake(ADMIT, POD % "memory: 1e3Gi", "'1e3Gi' is not a Kubernetes quantity"),
    "a list of pods that is empty": Mistake(ADMIT, "kind: List\nitems: []\n", "holds no pod"),
    "nothing but a remark": Mistake(ADMIT, "# nothing\n", "holds no pod"),
    "replicas below zero": Mistake(
        ADMIT,
        "kind: Deployment\nspec: {replicas: -1, template: {spec: {containers: [{name: x}]}}}\n",
        "spec.replicas: -1 is not a number of pods",
    ),
    "two containers of one name": Mistake(
        ADMIT, "kind: Pod\nspec: {containers: [{name: x}, {name: x}]}\n", "two containers have the same name"
    ),
    "a request above its limit": Mistake(
        ADMIT,
        "kind: Pod\nspec: {containers: [{name: x, resources: {requests: {cpu: 4}, limits: {cpu: 2}}}]}\n",
        "requests cpu 4, more than its limit of 2",
    ),
    "the same pod twice": Mistake(f"{ADMIT} FILE", POD % "cpu: 1", "is admitted already"),
    "a plan for a pod": Mistake(
        "admit plan.json --machine topology.json --config config.yaml",
        "",
        "plan.json: holds no pod: a document without a kind",
    ),
    "a limit of nothing": Mistake(
        ADMIT,
        "kind: Pod\nspec: {containers: [{name: x, resources: {limits: {cpu: null}}}]}\n",
        "limits.cpu: None is not a Kubernetes quantity",
    ),
    "CPUs with a blank": Mistake(ADMIT, POD % 'cpu: "2 "', "'2 ' is not a Kubernetes quantity"),
    "containers of nothing": Mistake(
        ADMIT, "kind: Pod\nspec: {containers: [null]}\n", "containers: must be a list of containers"
    ),
    "a job without a template": Mistake(
        ADMIT,
        "kind: CronJob\nspec: {jobTemplate: {spec: {template: null}}}\n",
        "CronJob default/file: holds no pod",
    ),
    "text behind JSON": Mistake(ADMIT, '{"kind": "Pod", "spec": {}} more\n', "not valid YAML"),
    "no shapes": Mistake("fit --shapes FILE --machine topology.json", "[]\n", "file.yaml: holds no pods"),
    "a shape of no pod": Mistake(
        "fit --shapes FILE --machine topology.json",
        "[{count: 0, cpu: 1}]\n",
        "count: 0 is not a number of pods",
    ),
    "a shape with a misspelt resource": Mistake(
        "fit --shapes FILE --machine topology.json", "[{count: 1, cpus: 1}]\n", "cpus is no resource"
    ),
    "a document of another kind for shapes": Mistake(
        "fit --shapes FILE --machine topology.json", "kind: Service\n", "file.yaml: holds no pods"
    ),
    "no node for shapes": Mistake(
        "fit --shapes FILE --machine topology.json=0",
        "[{count: 1, cpu: 1}]\n",
        "'0' is not a number of nodes",
    ),
    "half a node for shapes": Mistake(
        "fit --shapes FILE --machine topology.json=1e1", "[{count: 1, cpu: 1}]\n", "'1e1' is not a number of"
    ),
    "sections of the plugin that are nothing": Mistake(
        PLUGIN, "version: v1\nsharing: null\nflags: null\n", "sharing: None is not a mapping"
    ),
    "a strategy in capitals": Mistake(
        PLUGIN, "version: v1\nflags: {migStrategy: Single}\n", "unknown MIG strategy: Single"
    ),
    "no MIG configs": Mistake(
        "mig check FILE gpus.json", "version: v1\nmig-configs: {}\n", "mig-configs: is empty"
    ),
    "MIG configs of nothing": Mistake(
        "mig check FILE gpus.json", "version: v1\nmig-configs: null\n", "mig-configs: None is not a mapping"
    ),
    "a truth in quotes": Mistake(
        "mig check FILE gpus.json",
        'version: v1\nmig-configs: {a: [{devices: all, mig-enabled: "true"}]}\n',
        "'true' is neither true nor false",
    ),
    "a cluster of nothing": Mistake(
        "cluster explain pod.yaml gpus.json --cluster FILE",
        '{"kind": "List", "items": [null]}',
        "file.json: holds no objects",
        name="file.json",
        files={"pod.yaml": POD % "cpu: 1"},
    ),
    "a cluster in YAML": Mistake(
        "cluster explain pod.yaml gpus.json --cluster FILE",
        "kind: List\nitems: []\n",
        "not a complete JSON document",
        name="file.json",
        files={"pod.yaml": POD % "cpu: 1"},
    ),
    # machines and plans that were edited
    "a NUMA node twice": Mistake(
        "topology FILE",
        replaced(CUT, ("numa_nodes",), [*CUT["numa_nodes"], CUT["numa_nodes"][0]]),
        "numa_nodes[4].id: NUMA node 0 is listed twice",
    ),
    "no NUMA node": Mistake("topology FILE", replaced(CUT, ("numa_nodes",), []), "there is no NUMA node 0"),
    "a plan that reserves a CPU that is not there": Mistake(
        "fit pod.yaml --machine topology.json --plan FILE",
        replaced(PLANNED, ("cpus", "reserved"), "0,900"),
        "file.yaml: reserves CPU 900, which the machine has not",
        files={"pod.yaml": POD % "cpu: 1"},
    ),
    "a plan with a list of CPUs": Mistake(
        "plan FILE",
        replaced(PLANNED, ("cpus", "reserved"), [0, 1]),
        "plan.cpus.reserved: [0, 1] is not a text",
    ),
    "a plan of a later release": Mistake("plan FILE", replaced(PLANNED, ("schema",), 2), "upgrade numaforge"),
    "a plan of no release": Mistake("plan FILE", replaced(PLANNED, ("schema",), 0), "schema 0, not 1"),
    "a plan with a remark": Mistake(
        "plan FILE", replaced(PLANNED, ("comment",), "mine"), "plan.comment: unknown key"
    ),
    "a plan that names no template of ours": Mistake(
        "render FILE", replaced(PLANNED, ("files", 1, "template"), "../x"), "there is no template '../x'"
    ),
    "the plan of another machine": Mistake(
        "admit FILE --machine dgx-h100 --plan plan.json",
        POD % "cpu: 1",
        "is the plan of node1, and the machine is dgx-01",
    ),
    "a pod for a plan": Mistake(
        "admit FILE --machine topology.json --plan FILE",
        POD % "cpu: 1",
        "give what `numaforge capture`, or `topology` or `plan` with -o json, has written",
    ),
    "a plan that is not there": Mistake(
        "admit FILE --machine topology.json --plan nosuch.json",
        POD % "cpu: 1",
        "nosuch.json: there is no such file\n  give what `numaforge plan -o json` has written",
    ),
    # hosts
    **{
        f"{command} of Ansible's inventory in {kind}": Mistake(
            f"{command} FILE",
            text,
            f"{name}: an inventory is Python, and this is YAML, INI or JSON",
            name=name,
        )
        for command in ("capture", "measure", "doctor", "verify")
        for kind, name, text in (
            ("INI", "hosts.ini", "[gpu]\ngpu-01 ansible_host=10.0.0.7\n"),
            ("YAML", "hosts.yml", "all:\n  hosts:\n    gpu-01:\n"),
            ("INI without a suffix", "hosts", "[gpu]\ngpu-01\n"),
        )
    },
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "topology.json").write_text(json.dumps(to_document(machines.lab_node())))
    (tmp_path / "gpus.json").write_text(json.dumps(to_document(machines.dgx_h100())))
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "plan.json").write_text(json.dumps(PLANNED))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_one_clear_message(folder: Path, mistake: Mistake) -> None:
    (folder / mistake.name).write_text(mistake.text)
    for name, text in mistake.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(mistake.words.replace("FILE", mistake.name).split())
    said = out.getvalue() + err.getvalue()
    assert code == mistake.code, said
    assert mistake.message in said
    assert "Traceback" not in said


def test_there_are_sixty() -> None:
    assert len(MISTAKES) >= 60


# ---- pyinfra ----

INVENTORIES = {
    "no host": ("inventory.py", "nodes = []\n", "inventory.py names no host: nodes is empty"),
    "a text for a list": (
        "inventory.py",
        'nodes = "gpu-01"\n',
        'nodes is the text \'gpu-01\', and no list; write nodes = ["gpu-01", "gpu-02"]',
    ),
    "an empty file": ("inventory.py", "", "it has no list; write nodes = ["),
    "a private list": ("inventory.py", '_nodes = ["a"]\n', "_nodes begins with an underscore"),
    "a mapping": ("inventory.py", 'nodes = {"gpu-01": {}}\n', "and no list"),
    "numbers": ("inventory.py", "nodes = [1]\n", "nodes holds 1, which is no name of a host"),
    "a tuple of names": ("inventory.py", 'nodes = ("a", "b")\n', "is no list, and no pair"),
    "a pair of one": ("inventory.py", 'nodes = [("a",)]\n', "is no pair of a name and its data"),
    "Ansible's YAML": (
        "hosts.yaml",
        "all:\n  hosts:\n    gpu-01:\n",
        "docs/from-ansible.md shows one of Ansible",
    ),
    "Ansible's INI": ("hosts.ini", "[gpu]\ngpu-01\n", "docs/from-ansible.md shows one of Ansible"),
    "Ansible's INI without a suffix": (
        "hosts",
        "[gpu]\ngpu-01\n",
        "docs/from-ansible.md shows one of Ansible",
    ),
    "names alone": ("hosts", "gpu-01 gpu-02\n", "an inventory is Python: docs/from-ansible.md"),
    "a typing error": ("inventory.py", "nodes = [\n", "inventory.py, line 1"),
    "a file that ends Python": ("inventory.py", "raise SystemExit(0)\n", "inventory.py: ends the program"),
    "a character of no text": (
        "inventory.py",
        'nodes = ["a"]\n\0',
        "inventory.py: source code string cannot",
    ),
    "UTF-16": ("inventory.py", b"\xff\xfen\0", "inventory.py: is not UTF-8 text"),
    "a host twice": (
        "inventory.py",
        'nodes = [("a", {"ssh_port": 2}), ("a", {"ssh_port": 3})]\n',
        "nodes: names a twice, with other data",
    ),
    "a name of no letter": ("inventory.py", 'nodes = [""]\n', "nodes: holds '', which is no name of a host"),
    "data by a number": ("inventory.py", 'nodes = [("a", {1: 2})]\n', "a has data by 1, which is no key"),
    "a byte order mark": (
        "inventory.py",
        '\ufeffnodes = ["a"]\n',
        "inventory.py, line 1: invalid non-printable character U+FEFF; save the file without a byte order",
    ),
    "numaforge's profile": (
        "nodes.yaml",
        "extends: training\n",
        "nodes.yaml: an inventory is Python, and this",
    ),
}


def pyinfra(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "config.py").write_text("from numaforge.pyinfra_cli import adapt\n\nadapt()\n")
    (folder / "deploy.py").write_text("")
    return pyinfra_forks.run(words, {**os.environ, "PYINFRA_PROGRESS": "off"}, 120, folder)


@pytest.mark.parametrize(
    ("mode", "case"),
    [("--dry", case) for case in INVENTORIES]
    + [("-y", case) for case in ("no host", "a text for a list", "an empty file")],
)
def test_an_inventory_without_hosts_ends_with_the_reason(tmp_path, mode, case):
    name, text, message = INVENTORIES[case]
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    done = pyinfra(tmp_path, mode, name, "deploy.py")
    said = done.stdout
    assert done.returncode == BAD, said
    assert message in said
    assert "Traceback" not in said


RUNS = {
    "a profile beside the inventory, from elsewhere": (
        ("--dry", "relative.py", "deploy_of_ours.py"),
        1,
        "looked",
    ),
    "the deploy first": (("--dry", "deploy_of_ours.py", "inventory.py"), BAD, "the inventory comes first"),
    "a host that does not resolve": (("--dry", "gpu-01.invalid", "deploy.py"), BAD, "neither a file nor"),
    "a range of Ansible": (("--dry", "gpu-[01-03]", "deploy.py"), BAD, "neither a file nor"),
    "a typing error in a deploy": (("--dry", "inventory.py", "typo.py"), 1, "typo.py, line 1: "),
    "a module that is not there": (
        ("--dry", "inventory.py", "missing.py"),
        1,
        "missing.py, line 1: ModuleNotFoundError: No module named 'nosuch'",
    ),
    "data without a value": (("--dry", "--data", "x", "inventory.py", "deploy.py"), 1, "--data is KEY=VALUE"),
    "no host that can be reached": (("--dry", "closed.py", "deploy.py"), 1, "no host is left: why stands"),
}


@pytest.mark.parametrize(("words", "code", "message"), RUNS.values(), ids=list(RUNS))
def test_a_mistake_on_pyinfras_command_line_is_one_message(tmp_path, words, code, message):
    (tmp_path / "inventory.py").write_text('nodes = ["@local"]\n')
    data = {"numaforge_profile": "profiles/nodes.yaml"}
    (tmp_path / "relative.py").write_text(f"nodes = [('@local', {data})]\n")
    (tmp_path / "closed.py").write_text('nodes = [("a", {"ssh_hostname": "127.0.0.1", "ssh_port": 1})]\n')
    (tmp_path / "typo.py").write_text("x = = 1\n")
    (tmp_path / "missing.py").write_text("import nosuch\n")
    (tmp_path / "deploy_of_ours.py").write_text("from numaforge.deploys import site  # noqa: F401\n")
    done = pyinfra(tmp_path, *words)
    said = done.stdout
    assert done.returncode == code, said
    assert message in said
    assert "Traceback" not in said
    assert "No hosts remaining" not in said


OF_NO_GROUP = {
    "a group that has hosts": ({"gpu_nodes.py"}, []),
    "all hosts": ({"all.py"}, []),
    "the group of the inventory's file": ({"inventory.py"}, []),
    "what is no data": ({"README.md", ".gitkeep"}, []),
    "a group of another inventory": ({"a100.py"}, []),
    "a group like one that has its file": ({"gpu_node.py", "gpu_nodes.py"}, []),
    "YAML, as Ansible has it": (
        {"all.yml"},
        ["all.yml: pyinfra reads group_data/*.py alone; "],
    ),
    "a group spelt in another way": (
        {"gpu-nodes.py"},
        ["gpu-nodes.py: no host is in a group of that name; did you mean gpu_nodes.py?"],
    ),
    "all hosts spelt in another way": (
        {"All.py"},
        ["All.py: no host is in a group of that name; did you mean all.py?"],
    ),
}


@pytest.mark.parametrize("place", ["inventory.py", "fleet/inventory.py"], ids=["here", "elsewhere"])
@pytest.mark.parametrize(("files", "expected"), OF_NO_GROUP.values(), ids=list(OF_NO_GROUP))
def test_a_file_of_group_data_that_gives_no_host_anything_is_named(tmp_path, files, expected, place):
    inventory = tmp_path / place
    (inventory.parent / "group_data").mkdir(parents=True)
    inventory.write_text('gpu_nodes = ["@local"]\nstorage = ["disk-01"]\n')
    for name in files:
        (inventory.parent / "group_data" / name).write_text("a = 1\n")
    done = pyinfra(tmp_path, place, "debug-inventory")
    assert done.returncode == 0, done.stdout
    folder = str(Path(place).parent / "group_data")
    said = [line for line in done.stdout.splitlines() if line.startswith(folder)]
    assert len(said) == len(expected), done.stdout
    for notice, begin in zip(said, expected, strict=True):
        assert notice.startswith(f"{folder}/{begin}")


OF_NO_HOST = {
    "a user before the name": ('"root@gpu-1"', 'write ("gpu-1", {"ssh_user": "root"})'),
    "a port behind the name": ('"gpu-1:2222"', 'write ("gpu-1", {"ssh_port": 2222})'),
    "both": ('"root@gpu-1:22"', 'write ("gpu-1", {"ssh_user": "root", "ssh_port": 22})'),
    "two names": ('"gpu-1,gpu-2"', "write a name, an address or an alias"),
    "a blank": ('" gpu-1"', "write a name, an address or an alias"),
    "a network": ('"10.0.0.0/24"', "write a name, an address or an alias"),
    "an address": ('"ssh://gpu-1"', "write a name, an address or an alias"),
    "an option of ssh": ('"-oProxyCommand=x"', "write a name, an address or an alias"),
    "an address in Ansible's words": ('("gpu-1", {"ansible_host": "10.0.0.7"})', "write ssh_hostname"),
    "no user": ('("gpu-1", {"ssh_user": None})', "ssh_user: None is not accepted; leave it out, or write a"),
    "no port": ('("gpu-1", {"ssh_port": None})', "ssh_port: None is not accepted; leave it out, or write a"),
}


@pytest.mark.parametrize(("host", "message"), OF_NO_HOST.values(), ids=list(OF_NO_HOST))
def test_a_host_that_ssh_cannot_find_is_refused_alone(tmp_path, host, message):
    (tmp_path / "inventory.py").write_text(f"nodes = ['@local', {host}]\n")
    done = pyinfra(tmp_path, "inventory.py", "debug-inventory")
    assert message in done.stdout
    assert "Invalid connector data" not in done.stdout
    assert "Traceback" not in done.stdout


def test_a_name_of_any_kind_is_one_where_the_address_is_said(tmp_path):
    (tmp_path / "inventory.py").write_text('nodes = [("rack 3, place 7", {"ssh_hostname": "10.0.0.7"})]\n')
    done = pyinfra(tmp_path, "inventory.py", "debug-inventory")
    assert "is no name of a host" not in done.stdout


# ---- keys of SSH ----


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name, passphrase in (("plain", ""), ("locked", "right")):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", folder / name],
            check=True,
            timeout=60,
        )
    (folder / "empty").write_text("")
    (folder / "putty").write_text("PuTTY-User-Key-File-3: ssh-ed25519\n")
    (folder / "note").write_text("the key is on the other machine\n")
    (folder / "cut").write_text((folder / "plain").read_text()[:200])
    return folder


KEYS = {
    "the public half": ("plain.pub", None, "is the public half: name the private one, "),
    "empty": ("empty", None, "is empty"),
    "encrypted": ("locked", None, "is encrypted, and no agent has it"),
    "a wrong passphrase": ("locked", "wrong", "ssh_key_password does not open the key"),
    "PuTTY's": ("putty", None, "is PuTTY's; convert it: puttygen "),
    "no key": ("note", None, "is no private key"),
    "cut short": ("cut", None, "it is cut short"),
}


@pytest.mark.parametrize(("name", "password", "message"), KEYS.values(), ids=list(KEYS))
def test_a_key_that_cannot_be_used_is_named_with_the_remedy(keys, tmp_path, name, password, message):
    data = {"ssh_hostname": "127.0.0.1", "ssh_port": 1, "ssh_key": str(keys / name)}
    data |= {"ssh_key_password": password} if password else {}
    (tmp_path / "inventory.py").write_text(f"nodes = [('gpu-01', {data!r})]\n")
    done = pyinfra(tmp_path, "--dry", "inventory.py", "deploy.py")
    said = done.stdout
    assert done.returncode == 1, said
    assert message in said
    assert "Traceback" not in said
    assert "EOF error" not in said


@pytest.mark.parametrize(("name", "password", "message"), KEYS.values(), ids=list(KEYS))
def test_capture_says_the_same_of_a_key(keys, tmp_path, name, password, message):
    words = ["capture", "127.0.0.1:1", "--data", f"ssh_key={keys / name}"]
    words += ["--data", f"ssh_key_password={password}"] if password else []
    done = subprocess.run(
        [sys.executable, "-m", "numaforge", *words],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == BAD, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_is_yaml_where_it_says_so() -> None:
    """A case whose file does not parse would be refused for that alone."""
    odd = {"settings with tabs", "a chart's template", "two documents", "a section twice"}
    odd |= {"a key that is a list", "a tab before a key", "a character of no text", "two profiles in a file"}
    odd |= {"an anchor that is not there", "a tag that runs a program", "text after the end"}
    odd |= {"a quote that is not closed"}
    for name, mistake in MISTAKES.items():
        if name not in odd and mistake.name == "file.yaml" and not mistake.text.startswith("{"):
            yaml.safe_load(mistake.text.replace(LONG, "9"))
