"""Machines of tests/machines, and changed ones."""

import json
from functools import cache
from random import Random

from numaforge.machine.snapshot.catalogue import PLAN
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.read import read_topology
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fuzz.mutations import HOSTILE_TEXTS, mutated_data, mutated_text
from tests.machines.files import stored

READY = load_profile("training")
MACHINES = ("epyc-9654-8-h100-nps4", "nvidia-gb200-tray", "xeon-max-9480-snc4-flat", "nvidia-gh200")


@cache
def known(name: str) -> Snapshot:
    return stored(name).snapshot()


@cache
def plan_of(name: str) -> str:
    return dumps(plan_node(read_topology(known(name)), READY))


def mutated_host(random: Random) -> str:
    """Return the snapshot of a machine in which one to five files say something else."""
    name = random.choice(MACHINES)
    document = json.loads(known(name).to_json())
    files = document["files"]
    for _ in range(random.choice((1, 2, 5))):
        path = random.choice(sorted(files))
        kind = random.randrange(4)
        if kind == 0:
            files.pop(path)
        elif kind == 1:
            files[path] = random.choice(HOSTILE_TEXTS)
        elif kind == 2 and len(files[path]) < 20_000:
            files[path] = mutated_text(random, files[path])
        else:
            files[mutated_text(random, path)] = files[path]
    if random.random() < 0.5:
        files[PLAN] = json.dumps(mutated_data(random, json.loads(plan_of(name))))
    files["/etc/os-release"] = mutated_text(random, "NAME=Bob's Linux\nID=ubuntu\n")
    return json.dumps(document)
