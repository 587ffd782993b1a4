"""Random configurations: valid ones, unknown keys, wrong types, boundaries, drop-ins, flags, gates."""

from random import Random
from typing import Any

from numaforge.kubelet_minors.fields import ROOT_TYPE, types_of
from numaforge.kubelet_minors.tables import GATES
from numaforge.kubelet_minors.versions import LATEST_MINOR
from tests.oracle.case import API, Case
from tests.oracle.machines import described, random_shape
from tests.oracle.starts import resource_settings

_TYPES = types_of(LATEST_MINOR)
_INTEGERS = (0, 1, -1, 2, 5, 10, 40, 84, 85, 86, 100, 101, 110, 255, 256, -999, -1000, -1001, 1000, 1001)
_LARGE = (65535, 65536, 10250, 10255, 2**31 - 1, 2**31, -(2**31), 2**63 - 1)
_DURATIONS = (
    "0s", "1s", "10s", "1m0s", "1h", "1.5h", "-1s", "100ms", "1us", "24h", "0", "300s", "1m", "5m",
    "999999h",
)  # fmt: skip
_TEXTS = (
    "", "a b", "x", "none", "/var/lib/x", "relative/path", "192.168.0.1", "10.0.0.1", "é", "true", "10Gi",
)  # fmt: skip
_WRONG = (True, 1, 1.5, "x", "", None, [], ["x"], {}, {"a": "b"}, "1", "true", -1)
_QUANTITIES = (
    "", "0", "1", "100m", "1Gi", "512Mi", "1.5", "-1Gi", "1e3", "1GiB", "10%", "0.1", "2000000000", "1Ki",
)  # fmt: skip
_PERCENT = ("5%", "0%", "100%", "101%", "-1%", "10", "1Gi", "100Mi", "0", "x", "15.5%", "")
_SIGNALS = (
    "memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
    "pid.available", "memory.free", "containerfs.available",
)  # fmt: skip
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pid", "hugepages-1Gi", "nvidia.com/gpu")

# What a field is likely to hold, where its type alone says too little.
_LIKELY: dict[str, tuple[Any, ...]] = {
    "topologyManagerPolicy": ("none", "best-effort", "restricted", "single-numa-node", "strict", ""),
    "topologyManagerScope": ("container", "pod", "node", ""),
    "cpuManagerPolicy": ("none", "static", "Static", ""),
    "memoryManagerPolicy": ("None", "Static", "static", "BestEffort", ""),
    "cgroupDriver": ("systemd", "cgroupfs", ""),
    "hairpinMode": ("promiscuous-bridge", "hairpin-veth", "none", "x"),
    "reservedSystemCPUs": ("0", "0-1", "0,2", "1-0", "0-", "0,0", " 0", "a", "0-1,", ""),
    "systemReservedCgroup": ("/system.slice", "", "system.slice"),
    "kubeReservedCgroup": ("/kubelet.service", ""),
    "systemCgroups": ("/", "/system", ""),
    "cgroupRoot": ("/", "", "/kubepods"),
    "containerLogMaxSize": ("10Mi", "1", "x", "", "1.5", "-1"),
    "containerRuntimeEndpoint": ("unix:///run/containerd/containerd.sock", "", "x"),
    "podLogsDir": ("/var/log/pods", "logs", "/var/log/../log/pods", "/var/log/pods/", "/var/log/Ü", ""),
    "imagePullCredentialsVerificationPolicy": (
        "NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify", "x", "",
    ),
    "memoryReservationPolicy": ("None", "TieredReservation", "x", ""),
    "configMapAndSecretChangeDetectionStrategy": ("Watch", "Cache", "Get", "x"),
    "showHiddenMetricsForVersion": ("", "1.29", "1.35", "1.36", "x"),
    "address": ("192.168.0.1", "::", "127.0.0.1", "x", ""),
    "healthzBindAddress": ("192.168.0.1", "::1", "127.0.0.1", "localhost", ""),
    "memoryThrottlingFactor": (0.9, 1.0, 0, 1.1, -0.5, 0.0001, "0.9", 1),
    "shutdownGracePeriod": ("0s", "30s", "10s", "500ms", "-1s", "1s"),
    "shutdownGracePeriodCriticalPods": ("0s", "10s", "31s", "500ms", "-1s", "1s"),
    "port": (10250, 0, 1, 65535, 65536, -1),
}  # fmt: skip
_LISTS: dict[str, tuple[Any, ...]] = {
    "enforceNodeAllocatable": (
        "pods", "system-reserved", "kube-reserved", "none", "", "system-reserved-compressible",
        "kube-reserved-compressible", "x",
    ),
    "clusterDNS": ("10.96.0.10", "x", "::1"),
    "allowedUnsafeSysctls": ("net.core.somaxconn", "kernel.msg*"),
    "preloadedImagesVerificationAllowlist": ("registry.example/a", "registry.example/*", "*", "Registry/A:1"),
}  # fmt: skip
_MAPS: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "evictionHard": (_SIGNALS, _PERCENT),
    "evictionSoft": (_SIGNALS, _PERCENT),
    "evictionSoftGracePeriod": (_SIGNALS, ("1m", "30s", "x", "-1s")),
    "evictionMinimumReclaim": (_SIGNALS, _PERCENT),
    "kubeReserved": (_RESOURCES, _QUANTITIES),
    "systemReserved": (_RESOURCES, _QUANTITIES),
    "qosReserved": (("memory", "cpu"), ("50%", "x", "101%")),
    "cpuManagerPolicyOptions": (("full-pcpus-only", "strict-cpu-reservation", "x"), ("true", "false", "yes")),
    "topologyManagerPolicyOptions": (
        ("prefer-closest-numa-nodes", "max-allowable-numa-nodes", "x"), ("true", "8", "7", "yes"),
    ),
    "staticPodURLHeader": (("a", "b"), (["x"], ["x", "y"], "x")),
}  # fmt: skip
# An endpoint is parsed by Go's own package for URLs, of which `check` knows a part.
_LEFT_OUT = {"apiVersion", "kind", "tracing"}

_FLAGS: dict[str, tuple[str, ...]] = {
    "max-pods": ("5", "0", "-1", "x", "2147483648", "0x10", "1_0"),
    "kube-reserved": ("cpu=1", "cpu=100m,memory=1Gi", "x", "cpu=1,cpu=2", ""),
    "system-reserved": ("memory=1Gi", "memory", "pid=1000"),
    "eviction-hard": tuple(
        f"memory.available{rest}" for rest in ("<1Gi", "<5%,nodefs.available<1Gi", "", "=1")
    ),
    "feature-gates": ("MemoryQoS=true", "NodeSwap=false", "Nonsense=true", "MemoryQoS=maybe", "MemoryQoS"),
    "cpu-manager-policy": ("static", "none", ""),
    "topology-manager-policy": ("restricted", "x", "single-numa-node"),
    "topology-manager-scope": ("pod", "x"),
    "reserved-cpus": ("0-1", "1-0", ""),
    "reserved-memory": (
        "x",
        *(f"0:memory={rest}" for rest in ("1Gi", "1Gi;1:memory=2Gi", "0", "1Gi,hugepages-1Gi=1Gi")),
    ),
    "fail-swap-on": ("true", "false", "no", "", "t"),
    "cluster-dns": ("10.0.0.10", "10.0.0.10,10.0.0.11", ""),
    "node-labels": ("a=b", "kubernetes.io/x=y", "a", "node.kubernetes.io/instance-type=x"),
    "register-with-taints": ("a=b:NoSchedule", "a:NoExecute", "x", "a=b:Sometimes"),
    "port": ("10250", "0", "65536"),
    "v": ("2", "x", "-1"),
    "logging-format": ("text", "x"),
    "no-such-flag": ("1",),
    "image-gc-high-threshold": ("90", "80", "101"),
    "cpu-cfs-quota-period": ("100ms", "1us", "2s", "x"),
    "runtime-request-timeout": ("2m", "x", "-1s"),
    "cpu_manager_policy": ("static",),
}
_SWITCHES = (
    "--cgroups-per-qos", "--protect-kernel-defaults", "--fail-swap-on", "--max-pods", "-v=3", "word", "--",
    "-x",
)  # fmt: skip
_OTHER_KINDS: tuple[dict[str, Any], ...] = (
    *({"kind": kind} for kind in ("Pod", "", 1)),
    *({"apiVersion": version} for version in ("v1", "kubelet.config.k8s.io/v1")),
)
_TAILS = (
    "maxPods: 20\n", "nonsense: 1\n", "authentication:\n  nonsense: 1\n", "port: 1\nport: 2\n",
    "\tmaxPods: 1\n",
    "maxPods: [\n", "? x\n", "- x\n", "kind: Pod\n", "MaxPods: 12\n", "maxPods: 0x10\n", "maxPods: 1e2\n",
    "maxPods: 010\n", "---\nmaxPods: 3\n", "clusterDomain: yes\n", "clusterDomain: 1\n", "clusterDomain: ~\n",
)  # fmt: skip


def configuration(random: Random) -> Case:
    """Return a configuration; one in three with a machine on which the resource managers are to start."""
    if random.random() < 0.33:
        return _start(random)
    settings = {**API, **_settings(random, random.randint(0, 8))}
    if random.random() < 0.02:
        settings |= random.choice(_OTHER_KINDS)
    if random.random() < 0.7:
        settings["failCgroupV1"] = False
    return Case(
        settings,
        tail=random.choice(_TAILS) if random.random() < 0.08 else "",
        drop_ins=_drop_ins(random),
        flags=_flags(random),
    )


def _start(random: Random) -> Case:
    machine = random_shape(random)
    settings = resource_settings(random, described(machine), faults=True)
    drop_ins = {}
    if random.random() < 0.2:
        moved = random.choice(list(settings))
        drop_ins = {"10-numaforge.conf": {**API, moved: settings[moved]}}
        if random.random() < 0.5:
            del settings[moved]
    return Case({**API, **settings}, machine=machine, drop_ins=drop_ins)


def _settings(random: Random, count: int) -> dict[str, Any]:
    fields = _TYPES.structs[ROOT_TYPE]
    names = [name for name in fields if name not in (*_LEFT_OUT, "apiVersion", "kind")]
    chosen = {name: _value(random, name, fields[name]) for name in random.sample(names, count)}
    if random.random() < 0.1:
        chosen[random.choice(("nonsense", "maxpods", "cpuManagerPolicyOption"))] = random.choice(_WRONG)
    return chosen


def _value(random: Random, name: str, go_type: str) -> Any:
    if random.random() < 0.03:
        return random.choice(_WRONG)
    if name in _LIKELY:
        return random.choice(_LIKELY[name])
    if name in _MAPS:
        keys, values = _MAPS[name]
        return {
            key: random.choice(values) for key in random.sample(keys, random.randint(0, min(3, len(keys))))
        }
    if name in _LISTS:
        return random.choices(_LISTS[name], k=random.randint(0, 3))
    if name == "featureGates":
        return _gates(random)
    return _typed(random, go_type)


def _typed(random: Random, go_type: str) -> Any:
    plain = go_type.removeprefix("*")
    plain = _TYPES.aliases.get(plain, plain)
    fields = _TYPES.structs.get(plain, {})
    if plain.startswith("[]"):
        return [_typed(random, plain.removeprefix("[]")) for _ in range(random.randint(0, 2))]
    if fields:
        return {name: _value(random, name, kind) for name, kind in fields.items() if random.random() < 0.5}
    if plain.startswith("map["):
        value_type = plain.partition("]")[2]
        return {
            key: _typed(random, value_type)
            for key in random.sample(("a", "memory", "x.y/z"), random.randint(0, 2))
        }
    if plain == "bool":
        return random.random() < 0.5
    if plain.startswith(("int", "uint")):
        return random.choice(_INTEGERS if random.random() < 0.9 else _LARGE)
    if plain.startswith("float"):
        return random.choice((0, 0.5, 1, 1.5, -1))
    if "Duration" in plain:
        return random.choice(_DURATIONS)
    if "Quantity" in plain:
        return random.choice(_QUANTITIES)
    return random.choice(_TEXTS)


def _gates(random: Random) -> dict[str, bool]:
    names = random.sample(list(GATES), 1 if random.random() < 0.8 else 2)
    if random.random() < 0.05:
        names = ["Nonsense"]
    return {name: random.random() < 0.5 for name in names}


def _drop_ins(random: Random) -> dict[str, dict[str, Any]]:
    if random.random() < 0.75:
        return {}
    names = random.sample(
        ("10-a.conf", "20-b.conf", "30-c.yaml", "sub/15-d.conf", "05-e.conf"), random.randint(1, 2)
    )
    drop_ins = {name: {**API, **_settings(random, random.randint(0, 3))} for name in names}
    if random.random() < 0.05:
        del drop_ins[names[0]][random.choice(("kind", "apiVersion"))]
    return drop_ins


def _flags(random: Random) -> tuple[str, ...]:
    if random.random() < 0.75:
        return ()
    flags = []
    for name in random.sample(list(_FLAGS), random.randint(1, 2)):
        value = random.choice(_FLAGS[name])
        flags += [f"--{name}={value}"] if random.random() < 0.8 else [f"--{name}", value]
    if random.random() < 0.1:
        flags.append(random.choice(_SWITCHES))
    return tuple(flags)
