"""Time the lab from power-on to Ready, from its saved state and after a reset, and site.py against it.

A lab of its own in a temporary directory is used, so a lab that is up stays as it is. Every figure is the
wall time of the whole command, Python's start included; the limits are what the project promises on two
cores without KVM. With --cold everything is built from nothing first, Go's caches included, and the
demonstration is timed from there.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PYINFRA = Path(sys.executable).parent / "pyinfra"
NO_OP_RUNS = 5


def main() -> None:
    """Print one line per figure: what, seconds, promised seconds."""
    with tempfile.TemporaryDirectory(prefix="numaforge-bench-") as folder:
        environment = os.environ | {"NUMAFORGE_LAB_DIR": f"{folder}/lab"}
        try:
            if "--cold" in sys.argv[1:]:
                _measure_cold(environment, folder)
            else:
                _measure(environment)
        finally:
            _lab(environment, "down")


def _measure_cold(environment: dict[str, str], folder: str) -> None:
    environment |= {
        "NUMAFORGE_CACHE": f"{folder}/cache",
        "GOCACHE": f"{folder}/go-build",
        "GOMODCACHE": f"{folder}/go-mod",
    }
    built, _ = _lab(environment, "build")
    _report("build everything, downloads included", built, None)
    demo, _ = _lab(environment, "demo")
    _report("the demonstration, build included", built + demo, 900)


def _measure(environment: dict[str, str]) -> None:
    _lab(environment, "build")
    _, said = _lab(environment, "up", "--boot")
    ready = re.search(r"Ready ([\d.]+) s after power-on", said)
    if ready is None:
        raise SystemExit(f"the lab did not say when it was Ready:\n{said}")
    _report("power-on to Ready in the API", float(ready[1]), 90)
    _lab(environment, "down")
    restored, _ = _lab(environment, "up")
    _report("up from the saved state, Ready in the API", restored, 10)
    reset, _ = _lab(environment, "reset")
    _report("reset", reset, 10)
    _lab(environment, "down")
    demo, _ = _lab(environment, "demo")
    _report("the demonstration, from the saved state", demo, 60)
    begun = _begun_on_node(environment)
    _lab(environment, "reset")
    begun -= _begun_on_node(environment)
    print(f"{'processes and threads that it begins on the node':48s} {begun:7d}", flush=True)
    first, said = _site(environment)
    _report("site.py, everything to do", first, None)
    times = []
    for _ in range(NO_OP_RUNS):
        seconds, said = _site(environment)
        times.append(seconds)
    _report(f"site.py, nothing to do, median of {NO_OP_RUNS}", statistics.median(times), 5)
    print("\n".join(line for line in said.splitlines() if "Grand total" in line or "changed" in line.lower()))


def _lab(environment: dict[str, str], *arguments: str) -> tuple[float, str]:
    return _timed([sys.executable, "-m", "lab", *arguments], environment)


def _begun_on_node(environment: dict[str, str]) -> int:
    """Return how many processes and threads the node has begun: wall time depends on others, too."""
    _, said = _lab(environment, "ssh", "--", "cat", "/proc/stat")
    return int(said.partition("\nprocesses ")[2].split(maxsplit=1)[0])


def _site(environment: dict[str, str]) -> tuple[float, str]:
    return _timed([str(PYINFRA), "-y", "inventories/lab", "deploys/site.py"], environment)


def _timed(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    begun = time.monotonic()
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    seconds = time.monotonic() - begun
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds, done.stdout + done.stderr


def _report(what: str, seconds: float, promised: float | None) -> None:
    limit = f"(at most {promised:.0f} s)" if promised else ""
    print(f"{what:48s} {seconds:7.1f} s  {limit}", flush=True)


if __name__ == "__main__":
    main()
