"""The runs of a roll-out: forked from a process that has imported what they need, beside pyinfra's own start.

As many hosts as a budget may take at once each have a run, which finds nothing to change. CPU time
and memory are those of all processes of the controller together.

    bench/forks.py [--hosts N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.fleet import Fleet, Programs, adopt_orphans, cost, median, run, running_fleet, write_inventory
from numaforge.rollout.forks import PROGRAM, Forks
from tests.ssh.sandbox import cannot_run


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the runs of a roll-out")
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--child", nargs=2, metavar=("HOW", "INVENTORY"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        how, inventory = chosen.child
        HOW[how](inventory, chosen.hosts)
        return
    if reason := cannot_run():
        sys.exit(f"no measurement: {reason}")
    adopt_orphans()
    with tempfile.TemporaryDirectory() as name, running_fleet(Path(name), chosen.hosts) as fleet:
        measure(fleet, Path(name), chosen)


def measure(fleet: Fleet, folder: Path, chosen: argparse.Namespace) -> None:
    for _ in range(2):
        run(Programs(Path(sys.executable).parent).site(write_inventory(folder, fleet.hosts(1))), folder)
    inventory = write_inventory(folder, fleet.hosts(chosen.hosts))
    command = [sys.executable, __file__, "--hosts", str(chosen.hosts), "--child"]
    costs = {
        how: median(chosen.runs, lambda how=how: cost([*command, how, str(inventory)], folder, fleet))
        for how in HOW
    }
    for how, each in costs.items():
        print(
            f"{chosen.hosts} runs at once, {how}: {each.wall:.1f} s, {each.controller / chosen.hosts:.2f} s "
            f"of CPU and {each.peak_mib / chosen.hosts:.0f} MiB each"
        )
    forked, started = costs.values()
    print(f"started, a run takes {started.controller / forked.controller:.1f} times the CPU of a forked one")


def forked(inventory: str, hosts: int) -> None:
    """Fork a run for each host, as a roll-out does."""
    forks = Forks(PROGRAM)
    runs = [
        forks.start(arguments(inventory, host), dict(os.environ), Path(), Path(f"{inventory}.{host}.log"))
        for host in range(hosts)
    ]
    while any(each.poll() is None for each in runs):
        time.sleep(0.05)
    ends = [each.poll() for each in runs]
    forks.close()  # so that what it took counts
    assert not any(ends), ends


def started(inventory: str, hosts: int) -> None:
    """Start pyinfra for each host."""
    command = [sys.executable, "-m", "numaforge.run"]
    runs = [
        subprocess.Popen(
            [*command, *arguments(inventory, host)], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        for host in range(hosts)
    ]
    ends = [each.wait() for each in runs]
    assert not any(ends), ends


def arguments(inventory: str, host: int) -> list[str]:
    return ["-y", "--limit", f"node-{host + 1}", inventory, "deploys/site.py"]


HOW = {"forked": forked, "started": started}

if __name__ == "__main__":
    main()
