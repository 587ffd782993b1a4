"""Random inputs of the kubelet's parsers, by seed: near-valid texts, and mutations of what people write."""

# ruff: noqa: E501 (tables)
from collections.abc import Callable, Mapping, Sequence
from random import Random

from tests.fixtures.tables import tables

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n"

_ODD_CHARACTERS = "\t\n\r\x00\x07\x7f\x85\xa0é€٣²\u2028\ufeff\U0001f600\"'\\`"
_DIGITS = ("0", "1", "5", "9", "10", "00", "007", "08", "500", "1024", "4294967296", "9223372036854775807")
_BEYOND = ("9223372036854775808", "18446744073709551615", "18446744073709551616", "9" * 40, "1" * 5000)
_SUFFIXES = (
    "", "n", "u", "m", "k", "K", "Ki", "M", "Mi", "mi", "G", "Gi", "Ti", "Pi", "E", "Ei", "e3", "E3", "e-3",
    "e+9", "e19", "e-10", "e", "e99", "B", "i", "kk", "e3.5",
)  # fmt: skip
_UNITS = ("ns", "us", "µs", "μs", "ms", "s", "m", "h", "", "d", "S", "hm", "m s")
_WORDS = (
    "true", "True", "TRUE", "t", "f", "yes", "Yes", "no", "on", "OFF", "y", "N", "null", "Null", "~", "", "nil",
    ".nan", ".NaN", ".inf", "-.Inf", "+.INF", "-.nan", "inf", "Infinity", "-inf", "nan", "+nan", "infi",
)  # fmt: skip
_NUMBERS = (
    "0", "-0", "+1", "0x1F", "0X1f", "-0x10", "0o17", "017", "08", "0b101", "0b102", "-0b11", "0b-1", "0b", "0x",
    "1_000", "_1", "1_", "1__0", "0_7", "0x_1", "1e3", "1E3", "1e-7", "1e21", "1e20", "1e400", "-1e400", ".5",
    "-.5", "5.", "+.5", ".", "..", "-", "+", "1.5.2", "1e", "0x1p-2", "0x1.8p1", "1:20", "190:20:30", "1.0",
    "-1.5", "3.14", "100.0", "6.8523015e+5", "685.230_15e+03", "685_230.15", "0.1", "1e-5", "16777217", "1.00000006",
)  # fmt: skip
_TIMES = (
    "2025-02-30", "2025-02-28", "2025-1-2", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43", "0000-02-29",
    "2001-12-14T21:59:43Z", "2001-12-14 21:59:43.10 -5", "2025-02-28T25:00:00Z", "2025-13-01", "20250-01-01",
)  # fmt: skip


def quantity(random: Random) -> str:
    """Return a text near a quantity."""
    return mutated(
        random, random.choice(("", "", "+", "-")) + _decimal(random) + random.choice(_SUFFIXES), 0.15
    )


def duration(random: Random) -> str:
    """Return a text near a duration."""
    parts = [_decimal(random) + random.choice(_UNITS) for _ in range(random.choice((1, 1, 2, 3)))]
    return mutated(random, random.choice(("", "", "", "-", "+", "-+")) + "".join(parts), 0.15)


def cpuset(random: Random) -> str:
    """Return a text near a list of CPUs, none of them large."""
    small = ("0", "1", "3", "7", "15", "63", "255", "007", "+2", "-1", "", " 1", "x", "٣", "1.0", "0x1")
    parts = [
        random.choice(small) + random.choice(("", "", f"-{random.choice(small)}", "-2-3", ":2"))
        for _ in range(random.choice((1, 1, 2, 3)))
    ]
    return random.choice((",", ",", ",", ";", ",,")).join(parts)


def number(random: Random) -> str:
    """Return a text near a number: whole, broken, in any base, or a word for one."""
    kind = random.random()
    if kind < 0.5:
        return mutated(random, random.choice(_NUMBERS), 0.2)
    return _decimal(random) if kind < 0.8 else random.choice((*_BEYOND, *_WORDS))


def word(random: Random) -> str:
    """Return a text near a boolean."""
    return mutated(random, random.choice(_WORDS), 0.2)


def text(random: Random) -> str:
    """Return any text."""
    return "".join(
        random.choice(_ODD_CHARACTERS) if random.random() < 0.4 else chr(random.randint(32, 126))
        for _ in range(random.randint(0, 8))
    )


def mutated(random: Random, before: str, share: float = 1.0) -> str:
    """Return a text with a few characters removed, doubled, exchanged or put in."""
    if random.random() >= share:
        return before
    characters = list(before)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        place = random.randint(0, len(characters))
        choice = random.random()
        if choice < 0.3:
            del characters[place : place + random.choice((1, 1, 2, 8))]
        elif choice < 0.5 and characters:
            start = random.randint(0, len(characters))
            characters[place:place] = characters[start : start + random.choice((1, 2, 5, 20))]
        else:
            characters[place:place] = random.choice(_INDICATORS if random.random() < 0.8 else _ODD_CHARACTERS)
    return "".join(characters)


def _decimal(random: Random) -> str:
    whole = random.choice((*_DIGITS, "", str(random.randint(0, 10**6)), str(random.randint(0, 10**20))))
    fraction = random.choice(
        ("", "", "", ".", ".5", ".25", ".000000001", ".0000000001", ".9999999999999999999")
    )
    return whole + fraction


_INDICATORS = (
    "-", ":", ": ", "?", "? ", "{", "}", "[", "]", ",", ", ", "#", " #", "&a ", "*a", "!", "!!", "!!str ", "!!int ",
    "!!float ", "!!null ", "!!bool ", "!!binary ", "!!timestamp ", "!!map ", "!!seq ", "!!merge ", "!x ", "!<x> ",
    "|", ">", "|-\n", ">+\n", "|2\n", "'", '"', '"\\u0041"', '"\\x"', '"\\ud800"', "\\", "%", "%YAML 1.1\n", "@",
    "`", "---\n", "\n---\n", "...\n", "\n", "\n\n", "\t", " ", "  ", "<<: ", "<<: *a", "'<<': ", "~: ", "null: ",
    "=", "\r\n", "&a", "*b", "- ", "\n- ", "\n  ", "{}", "[]", "''", "1: ", "true: ", "1.5: ", "0x1F: ",
)  # fmt: skip

_LINES = (
    "maxPods: 110", "port: 10250", "cpuManagerPolicy: static", "topologyManagerPolicy: restricted",
    "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}", "reservedSystemCPUs: 0-1,4",
    "kubeReserved:\n  cpu: 500m\n  memory: 1Gi", "systemReserved: {memory: 512Mi, pid: '1000'}",
    "evictionHard:\n  memory.available: 100Mi\n  nodefs.available: 10%", "featureGates: {MemoryQoS: true}",
    "clusterDNS:\n- 10.96.0.10\n- 10.96.0.11", "clusterDomain: cluster.local", "failSwapOn: false",
    "syncFrequency: 1m0s", "authentication:\n  anonymous:\n    enabled: false\n  webhook: &w\n    enabled: true",
    "authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 5m}}", "logging:\n  format: text\n  verbosity: 2",
    "reservedMemory:\n- numaNode: 0\n  limits:\n    memory: 1124Mi\n- {numaNode: 1, limits: {memory: '1Gi'}}",
    "staticPodPath: /etc/kubernetes/manifests", "memoryThrottlingFactor: 0.9", "# a comment", "address: \"0.0.0.0\"",
    "providerID: |\n  aws:///zone/i-1\n", "tlsCipherSuites: [TLS_AES_128_GCM_SHA256]", "nodeStatusMaxImages: -1",
    "registerWithTaints:\n  - {key: a, value: b, effect: NoSchedule}", "rotateCertificates: yes",
    "allowedUnsafeSysctls: ['net.core.*', \"kernel.msg*\"]", "a: &a {b: 1, c: [1, 2]}", "d: *a", "e:\n  <<: *a\n  b: 2",
    "kubeletCgroups: >-\n  /kubelet\n  .slice", "containerLogMaxSize: 10Mi", "seccompDefault: ~",
    "shutdownGracePeriod: 30s", "eventRecordQPS: 0", "oomScoreAdj: -999", "volumePluginDir: 'a''b'",
)  # fmt: skip


def yaml_scalar(random: Random) -> str:
    """Return a scalar as YAML may hold it."""
    kind = random.random()
    if kind < 0.3:
        return number(random)
    if kind < 0.5:
        return random.choice(_WORDS)
    if kind < 0.6:
        return random.choice(_TIMES)
    if kind < 0.75:
        return random.choice(
            ("!!int ", "!!str ", "!!float ", "!!bool ", "!!null ", "!!timestamp ", "!!binary ", "! ", "!x ")
        ) + random.choice((number(random), random.choice(_WORDS), random.choice(_TIMES), "'5'", "aGk=", "%"))
    return random.choice(
        (
            "x",
            "a b",
            "'5'",
            '"x"',
            "10.0.0.1",
            "1Gi",
            "50%",
            "a:b",
            "http://x/?y=1#z",
            "*",
            "&",
            quantity(random),
        )
    )


def yaml_text(random: Random) -> str:
    """Return a YAML text: settings with scalars exchanged, then mutated."""
    lines = random.sample(_LINES, random.randint(1, 4))
    for _ in range(random.choice((0, 0, 1, 2))):
        key = random.choice(("x", "maxPods", "port", "clusterDomain", "? a", yaml_scalar(random)))
        lines.insert(random.randint(0, len(lines)), f"{key}: {yaml_scalar(random)}")
    if random.random() < 0.1:
        lines = ["{" + ", ".join(line.replace("\n", " ") for line in lines) + "}"]
    return mutated(random, "\n".join(lines) + "\n", 0.8)


def configuration(random: Random) -> str:
    """Return a whole configuration: most have a head, many are mutated."""
    return (HEAD if random.random() < 0.97 else "") + yaml_text(random)


SCALARS: Mapping[str, Callable[[Random], str]] = {
    "quantity": quantity,
    "duration": duration,
    "cpuset": cpuset,
    "integer": number,
    "decimal": number,
    "float": number,
    "boolean": word,
    "quote": text,
}
"""Generators by the oracle's readers."""


def many(random: Random, generator: Callable[[Random], str], count: int) -> Sequence[str]:
    """Return so many inputs."""
    return [generator(random) for _ in range(count)]


def json_text(random: Random) -> str:
    """Return a configuration in JSON, mostly mutated."""
    members = random.sample(_MEMBERS, random.randint(1, 4))
    for _ in range(random.choice((0, 1, 1))):
        key = random.choice(('"maxPods"', '"MaxPods"', '"kind"', '"Kind"', '"clusterDomain"', '"x"'))
        members.append(f"{key}: {_json_scalar(random)}")
    random.shuffle(members)
    inner = ", ".join(
        (
            '"apiVersion": "kubelet.config.k8s.io/v1beta1"',
            '"kind": "KubeletConfiguration", "failCgroupV1": false',
            *members,
        )
    )
    before = random.choice(("", "", "", " ", "\t", "\n", "\v", "\x1c", "\xa0"))
    return before + _json_mutated(random, "{" + inner + "}", 0.6)


def _json_mutated(random: Random, before: str, share: float) -> str:
    if random.random() >= share:
        return before
    characters = list(before)
    for _ in range(random.choice((1, 1, 2))):
        place = random.randint(0, len(characters))
        if random.random() < 0.4:
            del characters[place : place + random.choice((1, 1, 3, 9))]
        else:
            characters[place:place] = random.choice(_JSON_PIECES)
    return "".join(characters)


def _json_scalar(random: Random) -> str:
    return random.choice(
        (
            "110", "110.0", "1e2", "-1", "-0", "01", "1.", ".5", "1e400", "1" * 30, "true", "null", '"x"', "nul", "{}",
            "[]", '"\\ud83d\\ude00"', '"\\ud800"', '"\\u00"', '"\\x"', '"\x7f"', '"\t"', '"a\nb"', '"é"', "[1,]", "{,}",
        )
    )  # fmt: skip


_JSON_PIECES = (
    ",", ":", "{", "}", "[", "]", '"', "\\", "\n", "\t", " ", "1", "-", "e", ".", "null", "true", '"a":', '"a":1,',
    "\x7f", "\x00", "'", "#", "[]", "{}", "\\u0041", "\\ud800", "é", "+", "0",
)  # fmt: skip
_MEMBERS = (
    '"maxPods": 110', '"port": 10250', '"cpuManagerPolicy": "static"', '"reservedSystemCPUs": "0-1"',
    '"kubeReserved": {"cpu": "500m", "memory": "1Gi"}', '"evictionHard": {"memory.available": "5%"}',
    '"featureGates": {"MemoryQoS": true}', '"clusterDNS": ["10.96.0.10"]', '"syncFrequency": "1m"',
    '"authentication": {"anonymous": {"enabled": false}}', '"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]',
    '"memoryThrottlingFactor": 0.9', '"logging": {"verbosity": 2, "options": {"json": {"infoBufferSize": "0"}}}',
    '"registerWithTaints": [{"key": "a", "effect": "NoSchedule"}]', '"a": [[{"b": 1.5e3}]]', '"seccompDefault": null',
)  # fmt: skip


_FLAG_VALUES: Mapping[str, Sequence[str]] = tables(__file__)["flags"]


def flags(random: Random) -> tuple[str, ...]:
    """Return a command line near a valid one."""
    arguments: list[str] = []
    for name in random.choices(list(_FLAG_VALUES), k=random.choice((1, 1, 2, 3))):
        value = random.choice(_FLAG_VALUES[name]) if random.random() < 0.85 else number(random)
        shape = random.random()
        if random.random() < 0.06:
            name = random.choice(
                (name.replace("-", "."), name.replace("-", "_"), mutated(random, name), name[:-1])
            )
        if shape < 0.75:
            arguments.append(f"--{name}={value}")
        elif shape < 0.9:
            arguments += [f"--{name}", value]
        else:
            odd = (
                "-v4",
                "-hx",
                "-vh",
                "-h=false",
                "-v=4",
                "-v",
                "-v=",
                "-x",
                "--=",
                "---v",
                "--",
                "word",
                "-",
            )
            arguments.append(random.choice((f"-{name}={value}", f"--{name}", *odd)))
    # What begins with -h is a call for help, with which a kubelet ends.
    return tuple(each.replace("\x00", "") for each in arguments if not each.startswith(("-h", "--h=")))


def state_text(random: Random, before: str) -> str:
    """Return a state file mutated: its text, or one of its scalars."""
    if random.random() < 0.5:
        return _json_mutated(random, before, 1.0)
    for old, new in random.sample(_STATE_CHANGES, random.randint(1, 3)):
        before = before.replace(old, new)
    return before


_STATE_CHANGES = (
    ('"static"', '"none"'), ('"Static"', '"None"'), ('"0-15"', '"0-3"'), ('"0-15"', '"7-0"'), ('"0-15"', '""'),
    ('"0-15"', "7"), ('"entries"', '"Entries"'), ('"policyName"', '"POLICYNAME"'), ("{", "null"), ("[0]", "null"),
    ("[0]", "[0.5]"), ('"0":', '"00":'), ('"0":', '"--5":'), ('"0":', '"9223372036854775808":'), ('"0":', '"x":'),
    ('"checksum":', '"checksum":1'), ('"checksum":', '"Checksum":0,"checksum":'), ("}}", "},\"p\":null}"),
    ('"machineState":{', '"machineState":{"1":null,'), ('"entries":{', '"entries":{"p":null,'), ("memory", "\\u006demory"),
    ('"free":', '"free":1.0,"free":'), ('"cells":', '"cells":null,"Cells":'), ("numaAffinity", "NUMAAffinity"), ("1", "2"), ("0-15", "1-15"), ('"reserved":0', '"reserved":null'), ("[0]", "[1]"),
)  # fmt: skip
