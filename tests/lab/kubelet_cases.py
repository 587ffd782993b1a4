"""Whole kubelet configurations, one for each rule that `check` knows; no verdicts: real kubelets give those.

The machine has 16 CPUs in cores of two, two packages and four NUMA nodes of 2 GiB.
"""

import json
import runpy
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab import kubelets
from lab.kubelets import Trial
from lab.paths import REPOSITORY
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.machine.topology.model import NodeTopology

PAGE = REPOSITORY / "docs" / "check.md"
EXAMPLES = runpy.run_path(str(PAGE.with_name("check_examples.py")))["examples"]

MI = 2**20
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
STANDALONE = """\
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
"""
"""What every kubelet here needs: there is no API server to ask."""

WHOLE_CORES = "reservedSystemCPUs: 0-1,4-5,8-9,12-13"
STATIC = f"cpuManagerPolicy: static\n{WHOLE_CORES}"
RESERVED_300MI = "kubeReserved: {memory: 200Mi}\nsystemReserved: {memory: 100Mi}"
EVICTION_100MI = "evictionHard: {memory.available: 100Mi}"
MEMORY = f"memoryManagerPolicy: Static\n{RESERVED_300MI}\n{EVICTION_100MI}"
ALL_ON_NODE_0 = "reservedMemory: [{numaNode: 0, limits: {memory: 400Mi}}]"


@dataclass(frozen=True)
class Case:
    """A trial, and the kubelet minors that it says something about."""

    trial: Trial
    since: int = 30
    until: int = LATEST_MINOR

    def is_for(self, minor: str) -> bool:
        """Say whether a minor such as `1.33` is tried with this case."""
        return self.since <= int(minor.removeprefix("1.")) <= self.until


def case(
    name: str,
    *lines: str,
    drop_ins: Mapping[str, str] | None = None,
    flags: tuple[str, ...] = (),
    before: tuple[str, ...] | None = None,
    state: Mapping[str, str] | None = None,
    edits: tuple[tuple[str, str, str], ...] = (),
    since: int = 30,
    until: int = LATEST_MINOR,
) -> Case:
    """Return a case whose file holds these lines after what a lone kubelet needs."""
    before_text = None if before is None else config(*before)
    trial = Trial(name, config(*lines), drop_ins or {}, flags, before_text, state or {}, edits)
    return Case(trial, since, until)


def whole(name: str, text: str, *, since: int = 30, until: int = LATEST_MINOR) -> Case:
    """Return a case whose file is this text and nothing else."""
    return Case(Trial(name, text), since, until)


def config(*lines: str) -> str:
    """Return a configuration file with these lines."""
    return HEADER + STANDALONE + "".join(f"{line}\n" for line in lines)


def drop_in(*lines: str) -> str:
    """Return a drop-in with these lines."""
    return HEADER + "".join(f"{line}\n" for line in lines)


def gates(**values: bool) -> str:
    """Return a line that sets feature gates."""
    return f"featureGates: {json.dumps(values)}"


def cpu_options(**options: str) -> str:
    """Return a line that sets cpuManagerPolicyOptions; an underscore stands for a hyphen."""
    return f"cpuManagerPolicyOptions: {_hyphenated(options)}"


def topology_options(**options: str) -> str:
    """Return a line that sets topologyManagerPolicyOptions; an underscore stands for a hyphen."""
    return f"topologyManagerPolicyOptions: {_hyphenated(options)}"


def reserved_memory(*bytes_of_nodes: int | str) -> str:
    """Return a line that reserves memory on the NUMA nodes from 0 on."""
    entries = [
        {"numaNode": node, "limits": {"memory": str(amount)}} for node, amount in enumerate(bytes_of_nodes)
    ]
    return f"reservedMemory: {json.dumps(entries)}"


def _hyphenated(options: Mapping[str, str]) -> str:
    return json.dumps({name.replace("_", "-"): value for name, value in options.items()})


def predicted(
    trial: Trial, minor: str, machine: NodeTopology, state_files: Mapping[str, str] | None = None
) -> Report:
    """Return what `check` says of a trial on a machine, before a kubelet of a minor such as `1.33` does."""
    return check(
        trial.config,
        topology=machine,
        version=kubelets.version(minor),
        drop_ins=trial.drop_ins,
        flags=trial.flags,
        state_files=state_files,
        config_path=kubelets.CONFIG_PATH,
        drop_in_dir=kubelets.DROP_IN_DIR,
        root_dir=kubelets.ROOT_DIR,
    )


def percent_of(percent: float, memory_bytes: int) -> int:
    """Return an eviction threshold's bytes: kubelets hold the share in 32 bits."""
    single = struct.unpack("f", struct.pack("f", percent))[0] / 100
    return int(memory_bytes * struct.unpack("f", struct.pack("f", single))[0])


def all_cases(memory_bytes: int) -> list[Case]:
    """Return every case for a machine with that much memory; the names are the same for every machine."""
    parts = (
        _cpu_manager_options(),
        _cpu_manager(),
        _topology_manager(),
        _memory_manager(memory_bytes),
        _feature_gates(),
        _reservations(),
        _eviction(),
        _decoding(),
        _drop_ins(),
        _flags(),
        _state_files(),
        _validation(),
        _set_up(),
        _page(),
    )
    return [each for part in parts for each in part]


def _cpu_manager_options() -> Iterator[Case]:
    both = gates(CPUManagerPolicyAlphaOptions=True, CPUManagerPolicyBetaOptions=True)
    no_beta = gates(CPUManagerPolicyBetaOptions=False)
    for name in (
        "full-pcpus-only",
        "distribute-cpus-across-numa",
        "align-by-socket",
        "distribute-cpus-across-cores",
        "strict-cpu-reservation",
        "prefer-align-cpus-by-uncorecache",
    ):
        yield case(f"CPU option {name}", STATIC, cpu_options(**{name: "true"}))
    for name, stable in (
        ("full-pcpus-only", 33),
        ("distribute-cpus-across-numa", 37),
        ("strict-cpu-reservation", 35),
        ("prefer-align-cpus-by-uncorecache", 36),
    ):
        option = cpu_options(**{name: "true"})
        yield case(f"CPU option {name} with the beta gate off", STATIC, option, no_beta, until=stable)
    for together in (
        ("align-by-socket", "distribute-cpus-across-numa"),
        ("distribute-cpus-across-cores",),
        ("full-pcpus-only", "prefer-align-cpus-by-uncorecache", "strict-cpu-reservation"),
    ):
        options = cpu_options(**dict.fromkeys(together, "true"))
        yield case(f"{' with '.join(together)}, with the gates on", STATIC, options, both)
    yield case(
        "a CPU option switched off needs its gate all the same", STATIC, cpu_options(align_by_socket="false")
    )
    yield case("an unknown CPU option", STATIC, cpu_options(full_pcpu_only="true"))
    yield case("a CPU option that is no truth value", STATIC, cpu_options(full_pcpus_only="yes"))
    yield case(
        "CPU options without their gate",
        STATIC,
        cpu_options(full_pcpus_only="true"),
        gates(CPUManagerPolicyOptions=False),
    )
    pairs = (
        ("full-pcpus-only", "distribute-cpus-across-cores"),
        ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
        ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
        ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
    )
    for first, second in pairs:
        options = cpu_options(**{first: "true", second: "true"})
        yield case(f"{first} with {second}", STATIC, options, both, since=31)
    for policy in ("single-numa-node",):
        yield case(
            f"align-by-socket under {policy}",
            STATIC,
            cpu_options(align_by_socket="true"),
            both,
            f"topologyManagerPolicy: {policy}",
        )
    yield case("CPU options under policy none", cpu_options(full_pcpus_only="true"))


def _cpu_manager() -> Iterator[Case]:
    static = "cpuManagerPolicy: static"
    yield case("static without a reservation", static)
    yield case("static with a part of a CPU reserved", static, "kubeReserved: {cpu: 1100m}")
    yield case("static with more CPUs reserved than there are", static, 'kubeReserved: {cpu: "17"}')
    yield case("every CPU reserved by name", static, "reservedSystemCPUs: 0-15")
    yield case("a reserved CPU that is not there", static, "reservedSystemCPUs: 0-1,16")
    for text, rule in (("0-1, 4", "with a blank"), ("a", "by name")):
        yield case(f"reserved CPUs {rule}", static, f'reservedSystemCPUs: "{text}"')
    yield case("reserved CPUs beside a cgroup of the system", STATIC, "systemReservedCgroup: /system.slice")
    yield case("reserved CPUs take the place of kubeReserved.cpu", STATIC, 'kubeReserved: {cpu: "17"}')


def _topology_manager() -> Iterator[Case]:
    restricted = "topologyManagerPolicy: restricted"
    yield case(
        "pods on one NUMA node", "topologyManagerPolicy: single-numa-node", "topologyManagerScope: pod"
    )
    yield case("a topology policy that does not exist", "topologyManagerPolicy: strict")
    yield case("a topology scope that does not exist", restricted, "topologyManagerScope: node")
    options = {"prefer-closest-numa-nodes": ("true", "ja"), "max-allowable-numa-nodes": ("12", "7", "true")}
    for name, values in options.items():
        for value in values:
            yield case(f"topology option {name}: {value}", restricted, topology_options(**{name: value}))
    closest = topology_options(prefer_closest_numa_nodes="true")
    for gate, stable in (("TopologyManagerPolicyBetaOptions", 32), ("TopologyManagerPolicyOptions", 36)):
        off = gates(**{gate: False})
        yield case(f"prefer-closest-numa-nodes with {gate} off", restricted, closest, off, until=stable)
    yield case(
        "max-allowable-numa-nodes with TopologyManagerPolicyBetaOptions off",
        restricted,
        topology_options(max_allowable_numa_nodes="16"),
        gates(TopologyManagerPolicyBetaOptions=False),
    )
    yield case("an unknown topology option", restricted, topology_options(prefer_closest="true"))
    yield case("topology options under policy none are not read", topology_options(nonsense="true"))


def _memory_manager(memory_bytes: int) -> Iterator[Case]:
    static = "memoryManagerPolicy: Static"
    yield case("reserved memory that adds up on one NUMA node", MEMORY, ALL_ON_NODE_0)
    yield case("reserved memory without the eviction threshold", MEMORY, reserved_memory("300Mi"))
    yield case("reserved memory short of a byte", MEMORY, reserved_memory(400 * MI - 1))
    yield case("reserved memory with a byte too much", MEMORY, reserved_memory(400 * MI + 1))
    yield case("reserved memory in thousandths of bytes", MEMORY, reserved_memory("419430400000m"))
    yield case("reserved memory with a fraction of a byte", MEMORY, reserved_memory("419430400500m"))
    yield case("no reserved memory", MEMORY)
    yield case("nothing reserved at all", static, "evictionHard: {nodefs.available: 10%}")
    yield case(
        "reserved memory on a NUMA node that is not there",
        MEMORY,
        "reservedMemory: [{numaNode: 4, limits: {memory: 400Mi}}]",
    )
    yield case(
        "reserved memory twice on one NUMA node",
        MEMORY,
        "reservedMemory: [{numaNode: 0, limits: {memory: 200Mi}}, {numaNode: 0, limits: {memory: 200Mi}}]",
    )
    yield case("reserved memory of zero", MEMORY, reserved_memory("400Mi", "0"))
    yield case(
        "hugepages in reserved memory",
        MEMORY,
        "reservedMemory: [{numaNode: 0, limits: {memory: 400Mi, hugepages-2Mi: 64Mi}}]",
    )
    yield case(
        "CPUs in reserved memory",
        MEMORY,
        'reservedMemory: [{numaNode: 0, limits: {memory: 400Mi, cpu: "1"}}]',
    )
    yield case("reserved memory without limits", MEMORY, "reservedMemory: [{numaNode: 0}]")
    yield case(
        "more memory reserved than the NUMA node has",
        static,
        "kubeReserved: {memory: 2948Mi}",
        EVICTION_100MI,
        reserved_memory("3Gi"),
    )
    for percent in (33.3,):
        share = percent_of(percent, memory_bytes)
        eviction = f"evictionHard: {{memory.available: {percent}%}}"
        yield case(
            f"reserved memory with {percent} % for eviction",
            static,
            RESERVED_300MI,
            eviction,
            reserved_memory(300 * MI + share),
        )
    rounded_down = percent_of(5, memory_bytes) - 1
    yield case(
        "reserved memory with 5 % for eviction, short of a byte",
        static,
        RESERVED_300MI,
        "evictionHard: {memory.available: 5%}",
        reserved_memory(300 * MI + rounded_down),
    )
    yield case(
        "an eviction map without memory takes no part in the sum",
        static,
        RESERVED_300MI,
        "evictionHard: {nodefs.available: 10%}",
        reserved_memory("300Mi"),
    )
    yield case(
        "an eviction map merged with the defaults takes part in the sum",
        static,
        RESERVED_300MI,
        "evictionHard: {nodefs.available: 10%}",
        "mergeDefaultEvictionSettings: true",
        reserved_memory("400Mi"),
    )
    yield case(
        "a memory policy in small letters", "memoryManagerPolicy: static", RESERVED_300MI, ALL_ON_NODE_0
    )
    yield case("memory policy BestEffort", "memoryManagerPolicy: BestEffort", RESERVED_300MI, ALL_ON_NODE_0)
    yield case(
        "memory policy Static with its gate off", MEMORY, reserved_memory("1Gi"), gates(MemoryManager=False)
    )


def _feature_gates() -> Iterator[Case]:
    for name, value in (
        ("CPUManager", True),
        ("MemoryManager", True),
        ("CPUManagerPolicyOptions", False),
        ("PodLevelResourceManagers", True),
        ("NodeSwap", False),
        ("SidecarContainers", False),
        ("CPUManagerr", True),
    ):
        yield case(f"gate {name} {'on' if value else 'off'}", gates(**{name: value}))
    yield case(
        "AllBeta off and an option that is beta",
        STATIC,
        cpu_options(distribute_cpus_across_numa="true"),
        gates(AllBeta=False),
    )
    yield case(
        "AllAlpha on and an option that is alpha",
        STATIC,
        cpu_options(align_by_socket="true"),
        gates(AllAlpha=True),
    )
    yield case("a gate that is no truth value", 'featureGates: {MemoryQoS: "on"}')
    yield case(
        "a gate whose dependency is off",
        gates(PodLevelResources=False, PodLevelResourceManagers=True),
        since=36,
    )
    yield case("an unknown gate in a drop-in", drop_ins={"50-gate.conf": drop_in(gates(Nonsense=True))})
    yield case(
        "a gate as a flag wins over the file",
        gates(CPUManagerPolicyAlphaOptions=False),
        STATIC,
        cpu_options(align_by_socket="true"),
        flags=("--feature-gates=CPUManagerPolicyAlphaOptions=true",),
    )
    yield case("a gate as a flag that is no truth value", flags=("--feature-gates=MemoryQoS=maybe",))


def _reservations() -> Iterator[Case]:
    for text, rule in (
        ("8GB", "in GB"),
        ("-1Gi", "below zero"),
        ("64Gi", "beyond the node"),
        ("", "that is empty"),
    ):
        yield case(f"kubeReserved memory {rule}", f'kubeReserved: {{memory: "{text}"}}')
    yield case("kubeReserved with another resource", 'kubeReserved: {nvidia.com/gpu: "1"}')
    for name in ("system-reserved", "kube-reserved"):
        yield case(f"{name} enforced without a cgroup", f"enforceNodeAllocatable: [pods, {name}]")
    yield case(
        "system-reserved-compressible enforced without a cgroup",
        "enforceNodeAllocatable: [pods, system-reserved-compressible]",
    )
    yield case(
        "both ways to enforce system-reserved",
        "enforceNodeAllocatable: [system-reserved, system-reserved-compressible]",
        "systemReservedCgroup: /system",
    )
    amounts = 'cpu: 1e-1, memory: 1.5Gi, pid: "1000", ephemeral-storage: 1e9'
    yield case("everything that can be reserved", f"kubeReserved: {{{amounts}}}")
    yield case("none enforced beside pods", "enforceNodeAllocatable: [none, pods]")
    yield case("an enforcement that does not exist", "enforceNodeAllocatable: [podz]")
    yield case("pods enforced without cgroups for each quality of service", "cgroupsPerQOS: false")
    yield case(
        "no cgroups for each quality of service and nothing enforced",
        "cgroupsPerQOS: false",
        "enforceNodeAllocatable: [none]",
    )
    yield case("system cgroups without a cgroup root", "systemCgroups: /system")


def _eviction() -> Iterator[Case]:
    for text, rule in (
        ("0", "of zero bytes"),
        ("-1Mi", "below zero"),
        ("101%", "above 100 %"),
        ("-1%", "below 0 %"),
        ("100%", "of 100 %"),
    ):
        yield case(f"an eviction threshold {rule}", f'evictionHard: {{memory.available: "{text}"}}')
    yield case("an unknown eviction signal", "evictionHard: {memory.free: 100Mi}")
    yield case(
        "the eviction signals of the container file system", "evictionHard: {containerfs.available: 10%}"
    )
    yield case("a soft threshold without a grace period", "evictionSoft: {memory.available: 300Mi}")
    yield case(
        "a soft threshold with a grace period",
        "evictionSoft: {memory.available: 300Mi}",
        "evictionSoftGracePeriod: {memory.available: 30s}",
    )
    yield case(
        "a grace period that is no duration",
        "evictionSoft: {memory.available: 300Mi}",
        "evictionSoftGracePeriod: {memory.available: soon}",
    )


def _decoding() -> Iterator[Case]:
    dropped = ("cpuManagerPolicyy: static", "logging: {verbose: 2}", "MaxPods: -1", "maxPods: null")
    yield case("fields that nobody knows are dropped", *dropped)
    yield case("a key that appears twice", "maxPods: 100", "maxPods: -1")
    yield case("text for a number", "maxPods: many")
    yield case("a bad duration", "syncFrequency: 1 minute")
    yield case("a bad quantity in a list", "reservedMemory: [{numaNode: 0, limits: {memory: 1GiB}}]")
    yield case(
        "a bad timestamp in a taint", "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: today}]"
    )
    yield whole("an empty file", "")
    yield whole("a file that is not YAML", "kubelet: [")
    yield whole("a file without kind", "apiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 5\n")
    yield whole("a file of another kind", "apiVersion: v1\nkind: ConfigMap\n")
    yield whole(
        "a file of another version", "apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n"
    )
    yield whole("a list", "- maxPods: 5\n")
    yield case("a duration of nothing", 'shutdownGracePeriod: ""')
    yield case("a second document is not read", "maxPods: 100", "---", "maxPods: [")
    yield whole("a first document of nothing", f"---\n---\n{config()}")
    yield case("no memory is reserved", "reservedMemory: [{numaNode: 0, limits: {memory: null}}]", MEMORY)
    yield case("a number that no float holds", "memoryThrottlingFactor: 1e500")


def _drop_ins() -> Iterator[Case]:
    policy = "cpuManagerPolicy"
    yield case(
        "other extensions and unknown fields are not read",
        drop_ins={"50-a.yaml": drop_in(f"{policy}: no"), "README": "no", "50-b.conf": drop_in("maxPodz: -1")},
    )
    yield case(
        "10 comes before 9",
        drop_ins={"9.conf": drop_in(f"{policy}: nonsense"), "10.conf": drop_in(f"{policy}: none")},
    )
    yield case("drop-ins in folders are read", drop_ins={"a/50.conf": drop_in(f"{policy}: nonsense")})
    yield case(
        "a folder's drop-ins stand at its name",
        drop_ins={"50/a.conf": drop_in(f"{policy}: nonsense"), "60.conf": drop_in(f"{policy}: none")},
    )
    yield case("a drop-in without kind", drop_ins={"50-a.conf": f"{policy}: none\n"})
    yield case("an empty drop-in", drop_ins={"50-a.conf": ""})
    yield case("a drop-in that is not YAML", drop_ins={"50-a.conf": "a: [\n"})
    yield case("a drop-in with a wrong type", drop_ins={"50-a.conf": drop_in("maxPods: many")})
    yield case("a drop-in with a key twice", drop_ins={"50-a.conf": drop_in("maxPods: 5", "maxPods: 6")})
    yield case("a drop-in's field in another case", drop_ins={"50-a.conf": drop_in("MaxPods: -1")})
    yield case(
        "a drop-in's null takes the default back",
        "topologyManagerPolicy: nonsense",
        drop_ins={"50-a.conf": drop_in("topologyManagerPolicy: null")},
    )
    yield case(
        "a drop-in's map joins the file's",
        STATIC,
        cpu_options(full_pcpus_only="true"),
        gates(CPUManagerPolicyAlphaOptions=True),
        drop_ins={"50-a.conf": drop_in(cpu_options(distribute_cpus_across_cores="true"))},
        since=31,
    )
    yield case(
        "a drop-in's eviction map keeps the defaults",
        "memoryManagerPolicy: Static",
        RESERVED_300MI,
        ALL_ON_NODE_0,
        drop_ins={"50-a.conf": drop_in("evictionHard: {nodefs.available: 5%}")},
    )


def _flags() -> Iterator[Case]:
    yield case("a flag wins over the file", "maxPods: 100", flags=("--max-pods=-1",))
    yield case(
        "a flag wins over a drop-in",
        drop_ins={"50-a.conf": drop_in("cpuManagerPolicy: none")},
        flags=("--cpu-manager-policy=static",),
    )
    yield case(
        "every manager set up by flags alone",
        flags=(
            *("--cpu-manager-policy=static", "--reserved-cpus=0-1"),
            "--cpu-manager-policy-options=full-pcpus-only=true",
            *("--topology-manager-policy=restricted", "--topology-manager-scope=pod"),
            "--topology-manager-policy-options=prefer-closest-numa-nodes=true",
            *("--memory-manager-policy=Static", "--kube-reserved=memory=300Mi"),
            "--reserved-memory=0:memory=200Mi;1:memory=200Mi",
        ),
    )
    yield case(
        "two topology options in one flag",
        flags=(
            "--topology-manager-policy-options=prefer-closest-numa-nodes=true,max-allowable-numa-nodes=9",
        ),
        until=31,
    )
    yield case(
        "an eviction threshold as a flag replaces the map",
        MEMORY,
        reserved_memory("500Mi"),
        flags=("--eviction-hard=memory.available<200Mi",),
    )
    yield case("an unknown flag", flags=("--reserved-cpu=0-1",))
    yield case("a word that is no flag", flags=("start",))
    yield case("a word that is no flag, and a flag of another type", flags=("start", "--max-pods=many"))
    yield case("a flag with a number in hexadecimal", flags=("--max-pods=-0x10",))
    yield case("a flag with three hyphens", flags=("---max-pods=1",))
    yield case("a flag with a duration that is too large", flags=("--sync-frequency=9999999h",))
    yield case("a flag without its value", flags=("--max-pods",))
    yield case("a flag with a value of another type", flags=("--max-pods=many",))
    yield case("a flag with underscores", flags=("--max_pods=-1",))
    yield case("a deprecated flag still counts", flags=("--keep-terminated-pod-volumes=true",))
    for flag, value in (
        ("iptables-drop-bit", "32"),
        ("fail-cgroupv1", "true"),
        ("register-schedulable", "true"),
        ("pod-infra-container-image", "pause"),
    ):
        yield case(f"the flag --{flag} of some versions", flags=(f"--{flag}={value}",))
    yield case("a label that a node may not give itself", flags=("--node-labels=kubernetes.io/role=worker",))
    yield case("a taint as a flag without an effect", flags=("--register-with-taints=a=b",))
    yield case("a label as a flag without a value", flags=("--node-labels=gpu", "--max-pods=-1"))


def _state_files() -> Iterator[Case]:
    cpu, memory = "cpu_manager_state", "memory_manager_state"
    static, strict = (STATIC,), (STATIC, cpu_options(strict_cpu_reservation="true"))
    numa = (MEMORY, ALL_ON_NODE_0)
    both = (STATIC, *numa)
    yield case("the state files of the same configuration", *both, before=both)
    yield case("static after none", *static, before=())
    yield case("none after static", before=both)
    yield case("memory None after Static", *static, before=both)
    yield case("memory Static after None", *both, before=both)
    yield case("fewer reserved CPUs", "cpuManagerPolicy: static", "reservedSystemCPUs: 0-1", before=both)
    yield case("strict reservation after the plain one", *strict, before=both, since=33)
    yield case("the plain reservation after the strict one", *static, before=strict, since=33)
    yield case(
        "a larger strict reservation",
        "cpuManagerPolicy: static",
        "reservedSystemCPUs: 0-5,8-9,12-13",
        strict[1],
        before=strict,
        since=33,
    )
    yield case(
        "memory reserved on other NUMA nodes", STATIC, MEMORY, reserved_memory(*["100Mi"] * 4), before=both
    )
    yield case(
        "a wrong checksum of the CPU state",
        *static,
        before=both,
        edits=((cpu, '"checksum":', '"checksum":1'),),
    )
    yield case("a changed CPU state", *static, before=both, edits=((cpu, '"0-15"', '"0-14"'),))
    yield case(
        "a changed CPU state in the data of 1.37",
        *static,
        before=both,
        edits=((cpu, '\\"0-15\\"', '\\"0-14\\"'),),
        since=37,
    )
    yield case(
        "a changed memory state in the data of 1.37",
        *both,
        before=both,
        edits=((memory, '\\"numberOfAssignments\\":0', '\\"numberOfAssignments\\":1'),),
        since=37,
    )
    yield case(
        "a changed memory state",
        *both,
        before=both,
        edits=((memory, '"numberOfAssignments":0', '"numberOfAssignments":1'),),
    )
    for text, rule in (
        ("", "that is empty"),
        ("garbage", "that is not JSON"),
        ("[]", "that is a list"),
        ('{"policyName":"static"', "that is cut off"),
        ('{"policyName":5,"defaultCpuSet":"0-15"}', "with a number for text"),
        ("{}", "of an empty object"),
    ):
        yield case(f"a CPU state {rule}", *static, state={cpu: text})
        if not text.startswith(("[", '{"')):
            yield case(f"a memory state {rule}", *both, state={memory: text})
    for state, rule in (
        ({"policyName": "none", "defaultCpuSet": ""}, "of another policy"),
        ({"policyName": "static", "defaultCpuSet": "0-14"}, "with a CPU less"),
        ({"policyName": "static", "defaultCpuSet": "0-16"}, "with a CPU more"),
        ({"policyName": "static", "defaultCpuSet": "2-15"}, "whose shared pool lacks reserved CPUs"),
        ({"policyName": "static", "defaultCpuSet": ""}, "with an empty shared pool"),
        ({"policyName": "static", "defaultCpuSet": "0-"}, "whose shared pool is no list"),
        (
            {"policyName": "static", "defaultCpuSet": "0-1,4-15", "entries": {"pod": {"work": "2-3"}}},
            "with a pod",
        ),
        (
            {"policyName": "static", "defaultCpuSet": "0-15", "entries": {"pod": {"work": "2-3"}}},
            "with a pod's CPUs in the shared pool",
        ),
        (
            {"policyName": "static", "defaultCpuSet": "0-1,4-15", "entries": {"pod": {"work": "x"}}},
            "with a pod whose CPUs are no list",
        ),
        (
            {"policyName": "static", "defaultCpuSet": "0-1,4-15", "entries": {"container": "2-3"}},
            "of the first format",
        ),
    ):
        yield case(f"a CPU state {rule}", *static, state={cpu: json.dumps(state)})
    yield case(
        "a CPU state under policy none is not compared with the CPUs",
        state={cpu: json.dumps({"policyName": "none", "defaultCpuSet": "0-99"})},
    )


def _validation() -> Iterator[Case]:
    below_zero: tuple[str, ...] = (
        "maxPods",
        "podsPerCore",
        "eventBurst",
        "eventRecordQPS",
        "kubeAPIBurst",
        "kubeAPIQPS",
    )
    below_zero += ("registryBurst", "registryPullQPS", "maxOpenFiles", "iptablesDropBit", "readOnlyPort")
    below_zero += ("nodeLeaseDurationSeconds", "imageGCLowThresholdPercent", "containerLogMaxWorkers")
    yield case("numbers below zero, all at once", *(f"{name}: -1" for name in below_zero))
    too_large: dict[str, float] = {
        "oomScoreAdj": 1001,
        "port": 65536,
        "healthzPort": 65536,
        "iptablesMasqueradeBit": 32,
    }
    too_large |= {"imageGCHighThresholdPercent": 101, "memoryThrottlingFactor": 1.5, "readOnlyPort": 65536}
    yield case(
        "numbers that are too large, all at once", *(f"{name}: {value}" for name, value in too_large.items())
    )
    too_small = {"nodeStatusMaxImages": -2, "maxParallelImagePulls": 0, "memoryThrottlingFactor": 0}
    too_small |= {"imageGCHighThresholdPercent": 1, "oomScoreAdj": -1001}
    yield case(
        "numbers that are too small, all at once", *(f"{name}: {value}" for name, value in too_small.items())
    )
    off = "featureGates: {MemoryQoS: false}"
    yield case("a throttling factor without MemoryQoS", off, "memoryThrottlingFactor: 0.8", since=37)
    yield case("the former throttling factor without MemoryQoS", off, "memoryThrottlingFactor: 0.9", since=37)
    sysctls = (
        'defaultPodSysctls: {net.ipv4.ip_forward: "1", net/ipv4/ip_forward: "1", vm.swappiness: "1", X: ""}'
    )
    yield case("sysctls for all pods without their gate", sysctls, since=37)
    yield case("sysctls for all pods", "featureGates: {DefaultPodSysctls: true}", sysctls, since=37)
    durations = {"containerLogMonitorInterval": "1s", "cpuCFSQuotaPeriod": "2s", "imageMaximumGCAge": "1m"}
    durations |= {"shutdownGracePeriod": "500ms", "shutdownGracePeriodCriticalPods": "20s"}
    yield case(
        "durations that are out of range, all at once",
        *(f"{name}: {value}" for name, value in durations.items()),
    )
    values = {"hairpinMode": "loop", "podLogsDir": "var/log//pods", "showHiddenMetricsForVersion": '"1.20"'}
    values |= {"topologyManagerPolicy": "no", "topologyManagerScope": "node", "runOnce": "true"}
    values |= {
        "enableSystemLogQuery": "true",
        "memoryReservationPolicy": "Tiered",
        "tracing": "{endpoint: 'http://a'}",
    }
    values |= {"imagePullCredentialsVerificationPolicy": "Never"}
    yield case(
        "values that do not exist, all at once", *(f"{name}: {value}" for name, value in values.items())
    )
    for name, value in (
        ("containerLogMaxFiles", 1),
        ("containerLogMaxSize", "10MB"),
        ("tlsMinVersion", "TLS13"),
        ("memoryReservationPolicy", "TieredReservation"),
    ):
        yield case(f"{name}: {value}", f"{name}: {json.dumps(value)}")
    yield case("swap behaviour UnlimitedSwap", "memorySwap: {swapBehavior: UnlimitedSwap}")
    yield case(
        "swap behaviour with its gate off", "memorySwap: {swapBehavior: LimitedSwap}", gates(NodeSwap=False)
    )
    yield case(
        "a restart period that is too long",
        "crashLoopBackOff: {maxContainerRestartPeriod: 301s}",
        gates(KubeletCrashLoopBackOffMax=True),
        since=32,
    )
    yield case("too few ids for a pod's user namespace", "userNamespaces: {idsPerPod: 1000}", since=33)
    yield case("a taint without a key", "registerWithTaints: [{effect: NoSchedule}]")
    yield case("logs as JSON", "logging: {format: json}")
    yield case(
        "log modules in JSON logs", "logging: {format: json, vmodule: [{filePattern: kubelet, verbosity: 5}]}"
    )
    yield case("logs that are never flushed", "logging: {flushFrequency: -1s}")
    yield case("a tracing endpoint of another scheme", 'tracing: {endpoint: "http://localhost:4317"}')
    yield case("an authorization mode that does not exist", "authorization: {mode: RBAC}", since=30)


def _set_up() -> Iterator[Case]:
    yield case("a cipher suite that does not exist", "tlsCipherSuites: [TLS_NONE]")
    for name, curves in (
        ("is unknown", "[1]"),
        ("is there twice", "[29, 29]"),
        ("is out of range", "[65536]"),
    ):
        yield case(f"a curve that {name}", f"tlsCurvePreferences: {curves}", since=36)
    yield case("a sysctl of the whole node", "allowedUnsafeSysctls: [net.core.somaxconn, vm.swappiness]")
    yield case("a sysctl that cannot be", 'allowedUnsafeSysctls: ["kernel msg"]')
    yield case("a log size that is no whole number", "containerLogMaxSize: 1.5Gi")
    yield case("a period below zero", "syncFrequency: -1s")
    for name, pattern in (
        ("wildcard in the middle", "registry.example/*/a"),
        ("tag", "registry.example/a:1"),
        ("capital", "registry.example/A"),
        ("name alone", "pause"),
    ):
        yield case(
            f"an allowed image with a {name}",
            gates(KubeletEnsureSecretPulledImages=True),
            "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages",
            f'preloadedImagesVerificationAllowlist: ["{pattern}"]',
            since=33,
        )
    yield case("CPUs reserved for a quality of service", 'qosReserved: {cpu: "50%"}', gates(QOSReserved=True))
    yield case(
        "a node as numaforge plans it",
        STATIC,
        cpu_options(full_pcpus_only="true"),
        "topologyManagerPolicy: single-numa-node",
        MEMORY,
        reserved_memory(*["100Mi"] * 4),
    )


def _page() -> Iterator[Case]:
    """Yield the configurations that docs/check.md shows."""
    for heading, (version, lines) in EXAMPLES(PAGE.read_text()).items():
        minor = int(version.removeprefix("1."))
        yield case(f"on the page: {heading}", lines.rstrip(), since=minor, until=minor)
