"""Play roll-outs over 2,000 nodes with random faults, and count violations: `python bench/rollout.py`.

Plays 10,000 seeds on every core that it may use, then one whole fleet of 2,000. `--seed N` plays one seed
again and tells what happens. Exits 1 for a violation, or where it takes longer than promised.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from numaforge.rollout.budget import Budget, Share
from numaforge.rollout.fleet import FleetSettings
from tests.fixtures.simulation import Shape, Simulation, ViolationError

LIMIT_SECONDS = 600.0
WHOLE_FLEET = Shape(
    members=(2000, 2000),
    troubled=0.0,
    late=0.0,
    asked_late=0.0,
    closed=0.0,
    left_before=0.0,
    events=0,
    kills=0,
    blocked=False,
    undrained=0.0,
    outside=(0, 0),
    settings=FleetSettings(budget=Budget(Share(percent=5), pool=""), canaries=1),
)


def play(seed: int) -> tuple[int, Counter[str], str]:
    try:
        return seed, Simulation(seed).run(), ""
    except ViolationError as violation:
        return seed, Counter(), str(violation)


def play_many(seeds: range) -> int:
    started = time.perf_counter()
    cores = len(os.sched_getaffinity(0))
    endings: Counter[str] = Counter()
    violations = []
    with multiprocessing.Pool(cores) as pool:
        for seed, found, violation in pool.imap_unordered(play, seeds, chunksize=20):
            endings.update(found)
            if violation:
                violations.append((seed, violation))
                print(f"seed {seed}: {violation}", flush=True)
    seconds = time.perf_counter() - started
    said = ", ".join(f"{count} {ending}" for ending, count in sorted(endings.items()))
    print(f"{len(seeds)} seeds on {cores} cores: {seconds:.0f} s, {len(violations)} violations ({said})")
    return 1 if violations or seconds > LIMIT_SECONDS else 0


def play_whole_fleet() -> int:
    started = time.process_time()
    simulation = Simulation(1, WHOLE_FLEET)
    endings = simulation.run()
    seconds = time.process_time() - started
    print(
        f"a fleet of {WHOLE_FLEET.nodes}, {simulation.observer.most} at a time: {seconds:.0f} s of CPU, "
        f"{1000 * seconds / WHOLE_FLEET.nodes:.1f} ms a node ({dict(endings)})"
    )
    return 0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=10_000)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--seed", type=int)
    options = arguments.parse_args()
    if options.seed is not None:
        print(dict(Simulation(options.seed, Shape(verbose=True)).run()))
        return 0
    return play_many(range(options.first, options.first + options.seeds)) or play_whole_fleet()


if __name__ == "__main__":
    sys.exit(main())
