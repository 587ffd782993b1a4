"""Random configurations: valid ones, unknown keys, wrong types, boundaries, drop-ins, flags, gates."""

from random import Random
from typing import Any

from numaforge.kubelet_minors.fields import ROOT_TYPE, types_of
from numaforge.kubelet_minors.tables import GATES
from numaforge.kubelet_minors.versions import LATEST_MINOR
from tests.fixtures.tables import tables
from tests.oracle.case import API, Case
from tests.oracle.machines import described, random_shape
from tests.oracle.starts import resource_settings

TABLES = tables(__file__)

_TYPES = types_of(LATEST_MINOR)
_WRONG = TABLES["wrong_types"]

# What a field is likely to hold, where its type alone says too little.
_LIKELY: dict[str, list[Any]] = TABLES["likely"]
_LISTS: dict[str, list[Any]] = TABLES["lists"]
_MAPS: dict[str, tuple[list[str], list[Any]]] = TABLES["maps"]
# An endpoint is parsed by Go's own package for URLs, of which `check` knows a part.
_LEFT_OUT = {"apiVersion", "kind", "tracing"}

_FLAGS: dict[str, list[str]] = TABLES["flags"]


def configuration(random: Random) -> Case:
    """Return a configuration; one in three with a machine on which the resource managers are to start."""
    if random.random() < 0.33:
        return _start(random)
    settings = {**API, **_settings(random, random.randint(0, 8))}
    if random.random() < 0.02:
        settings |= random.choice(TABLES["other_kinds"])
    if random.random() < 0.7:
        settings["failCgroupV1"] = False
    return Case(
        settings,
        tail=random.choice(TABLES["tails"]) if random.random() < 0.08 else "",
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
        return random.choice(TABLES["integers"] if random.random() < 0.9 else TABLES["large_integers"])
    if plain.startswith("float"):
        return random.choice((0, 0.5, 1, 1.5, -1))
    if "Duration" in plain:
        return random.choice(TABLES["durations"])
    if "Quantity" in plain:
        return random.choice(TABLES["quantities"])
    return random.choice(TABLES["texts"])


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
        flags.append(random.choice(TABLES["switches"]))
    return tuple(flags)
