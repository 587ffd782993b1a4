"""What a rehearsal costs of CPU on a real machine: kubelet and containerd of the lab, until the managers run.

Both start in namespaces of their own, as in a rehearsal, and without control groups, which not every machine
that measures can give away. Needs root.

    bench/rehearsal.py [--runs N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.rehearsal_here import start


def main() -> None:
    parser = argparse.ArgumentParser(description="measure what a rehearsal costs of CPU")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    runs = []
    for _ in range(chosen.runs):
        outcome, seconds = start("containerd")
        if outcome != "outcome started":
            sys.exit(f"no measurement: {outcome}")
        runs.append(seconds)
    print(
        f"kubelet and containerd: {statistics.median(runs):.2f} s of CPU, {min(runs):.2f} to {max(runs):.2f}"
    )


if __name__ == "__main__":
    main()
