"""Texts as they are given to the kubelet, where the other cases are settings that are written as YAML."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from numaforge.kubelet.checkpoints import _checksum
from tests.fuzz.kubelet_inputs import HEAD, configuration, flags, json_text, state_text
from tests.oracle.case import Case
from tests.oracle.machines import KINDS, described


@dataclass(frozen=True)
class Raw(Case):
    """A main file and drop-ins as texts, flags and state files."""

    settings: Mapping[str, object] = field(default_factory=dict)
    main: str = ""
    raw_drop_ins: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.main

    @property
    def drop_in_texts(self) -> dict[str, str]:
        return dict(self.raw_drop_ins)

    def smaller(self) -> Iterator[Case]:
        """Yield the cases that lack a line or a flag of this one."""
        lines = self.main.splitlines(keepends=True)
        for place in range(len(lines)):
            yield replace(self, main="".join(lines[:place] + lines[place + 1 :]))
        for name, text in self.raw_drop_ins.items():
            others = {other: kept for other, kept in self.raw_drop_ins.items() if other != name}
            yield replace(self, raw_drop_ins=others)
            lines = text.splitlines(keepends=True)
            for place in range(len(lines)):
                less = "".join(lines[:place] + lines[place + 1 :])
                yield replace(self, raw_drop_ins={**self.raw_drop_ins, name: less})
        for place in range(len(self.flags)):
            yield replace(self, flags=self.flags[:place] + self.flags[place + 1 :])


MANAGED = f"""{HEAD}cpuManagerPolicy: static
reservedSystemCPUs: "0"
memoryManagerPolicy: Static
kubeReserved: {{memory: 1Gi}}
evictionHard: {{memory.available: 100Mi}}
reservedMemory:
- {{numaNode: 0, limits: {{memory: 1124Mi}}}}
"""
"""A configuration whose managers restore state files, for the machine `small`."""

_RESERVED = 1124 << 20
_POOL = '{"total":0,"systemReserved":0,"allocatable":0,"reserved":0,"free":0}'


def state_files(random: Random) -> dict[str, str]:
    """Return the state files of such a kubelet, one of them mutated."""
    cpu = '{"policyName":"static","defaultCpuSet":"0-15","entries":{},"checksum":0}'
    memory = _memory_state()
    if random.random() < 0.5:
        return {"cpu_manager_state": _mutated(random, cpu), "memory_manager_state": memory}
    return {"cpu_manager_state": cpu, "memory_manager_state": _mutated(random, memory)}


def _mutated(random: Random, text: str) -> str:
    """Mutate a file as it is, as kubelets write it from 1.37 on, or the state in the latter alone."""
    kind = random.choice(("fields", "fields", "file", "data"))
    if kind == "fields":
        return state_text(random, text)
    if kind == "file":
        return state_text(random, _with_data(text, _data(text)))
    return _with_data(text, state_text(random, _data(text)))


def _data(text: str) -> str:
    document = {name: value for name, value in json.loads(text).items() if name != "checksum"}
    return json.dumps(document, separators=(",", ":"))


def _with_data(text: str, data: str) -> str:
    """Return a state file in the format of 1.37: a state once more as a text, with its checksum."""
    return f'{text[:-1]},"data":{json.dumps(data)},"dataChecksum":{_checksum(f"(string){data}")}}}'


def _memory_state() -> str:
    nodes = ",".join(
        f'"{node["id"]}":{_node_state(node["id"], node["memory"])}'
        for node in described(KINDS["small"])["numa"]
    )
    return f'{{"policyName":"Static","machineState":{{{nodes}}},"entries":{{}},"checksum":0}}'


def _node_state(node: int, total: int) -> str:
    reserved = 0 if node else _RESERVED
    free = total - reserved
    memory = (
        f'{{"total":{total},"systemReserved":{reserved},"allocatable":{free},"reserved":0,"free":{free}}}'
    )
    tables = f'"memory":{memory},"hugepages-2Mi":{_POOL},"hugepages-1Gi":{_POOL}'
    return f'{{"numberOfAssignments":0,"memoryMap":{{{tables}}},"cells":[{node}]}}'


def _drop_in(random: Random) -> Raw:
    text = configuration(random) if random.random() < 0.7 else json_text(random)
    return Raw(main=HEAD, raw_drop_ins={"10-a.conf": text})


MUTATED: Mapping[str, Callable[[Random], Raw]] = {
    "main files in YAML": lambda random: Raw(main=configuration(random)),
    "main files in JSON": lambda random: Raw(main=json_text(random)),
    "drop-ins": _drop_in,
    "flags": lambda random: Raw(main=HEAD, flags=flags(random)),
    "state files": lambda random: Raw(main=MANAGED, machine=KINDS["small"], state=state_files(random)),
}
"""What is mutated of what a kubelet reads."""
