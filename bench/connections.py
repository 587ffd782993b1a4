"""What logging in to hosts costs the controller: `exec -- true` on many hosts over loopback SSH.

Hosts are reached straight, one of them behind a jump host, and all behind one. Each is an address of its own
of one sshd; the jump host is another sshd. CPU time is that of all processes of the controller, with what
they leave behind, such as connections to jump hosts; sshd's and its shells' does not count.

With `--beside DIR`, a checkout with its own .venv, the runs of both take turns, and the ratio is shown:
how a machine was busy meanwhile is then in both.

    bench/connections.py [--beside DIR] [HOSTS]

Needs root.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.fleet import adopt_orphans, write_inventory
from tests.ssh.machine import machine
from tests.ssh.many_hosts import Listener, address, children, know, listening
from tests.ssh.sandbox import REPOSITORY, Sandbox, cannot_run, running_sandbox

JUMP = "127.9.9.9"
NONE = "none.of.them"
ORPHANS_SECONDS = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description="measure what logins cost the controller")
    parser.add_argument("hosts", nargs="?", type=int, default=300)
    parser.add_argument("--beside", type=Path, metavar="DIR", help="another checkout, measured in turns")
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    if reason := cannot_run():
        sys.exit(f"no measurement: {reason}")
    adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_sandbox(folder, machine()) as sandbox:
            sshd = listening(sandbox, chosen.hosts, "hosts_config")
            know(sandbox, [sshd], chosen.hosts)
            jump = listening(sandbox, chosen.hosts, "jump_config")
            known = f"[{JUMP}]:{jump.port} {(sandbox.keys / 'host.pub').read_text()}"
            with (sandbox.keys / "known_hosts").open("a") as file:
                file.write(known)
            (folder / ".ssh").mkdir(mode=0o700)
            measure(folder, sandbox, sshd, jump, chosen)


def measure(
    folder: Path, sandbox: Sandbox, sshd: Listener, jump: Listener, chosen: argparse.Namespace
) -> None:
    """Print a line for each way to reach hosts."""
    many = chosen.hosts
    ways = {
        "1 host": (1, NONE),
        f"{many} hosts": (many, NONE),
        f"{many} hosts, 1 behind a jump": (many, address(1)),
        f"{many} hosts behind a jump": (many, f"{address(1).split('.')[0]}.*"),
    }
    checkouts = [REPOSITORY, *([chosen.beside.resolve()] if chosen.beside else [])]
    print(
        f"{'CPU s of the controller':32}"
        + "".join(f"{each.name:>12}" for each in checkouts)
        + "   ms per host"
    )
    costs: dict[str, list[float]] = {}
    for way, (count, jumped) in ways.items():
        configure(folder, sandbox, jump, jumped)
        data = {**sandbox.data(), "ssh_port": sshd.port}
        inventory = write_inventory(
            folder, {f"node-{n}": data | {"ssh_hostname": address(n)} for n in range(1, count + 1)}
        )
        runs = [[cpu_seconds(each, folder, inventory) for each in checkouts] for _ in range(chosen.runs)]
        costs[way] = [statistics.median(of_checkout) for of_checkout in zip(*runs, strict=True)]
        ratio = f"   {costs[way][0] / costs[way][1]:.2f} times as much" if chosen.beside else ""
        more = (ours - one for ours, one in zip(costs[way], costs["1 host"], strict=True))
        each_ms = "".join(f"{seconds / (many - 1) * 1000:6.1f}" for seconds in more)
        print(
            f"{way:32}" + "".join(f"{each:12.2f}" for each in costs[way]) + f"   {each_ms}{ratio}", flush=True
        )


def configure(folder: Path, sandbox: Sandbox, jump: Listener, jumped: str) -> None:
    """Write the ssh_config in which the hosts of a pattern are behind the jump host."""
    (folder / ".ssh/config").write_text(
        f"Host jump-host\n  HostName {JUMP}\n  Port {jump.port}\n  User root\n"
        f"Host {jumped}\n  ProxyJump jump-host\n"
        f"Host *\n  IdentityFile {sandbox.keys / 'user'}\n  UserKnownHostsFile {sandbox.keys}/known_hosts\n"
    )


def cpu_seconds(checkout: Path, folder: Path, inventory: Path) -> float:
    """Return the CPU time of a run with all that it starts and leaves behind."""
    ours = children()
    log = folder / "run.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(checkout / ".venv/bin/pyinfra"), "-y", str(inventory), "exec", "--", "true"],
            cwd=checkout,
            env={**os.environ, "HOME": str(folder), "PYINFRA_PROGRESS": "off"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{checkout}: {log.read_text(errors='replace')[-3000:]}")
    seconds = used.ru_utime + used.ru_stime
    time.sleep(ORPHANS_SECONDS)
    for orphan in children() - ours - {process.pid}:
        os.kill(orphan, signal.SIGTERM)
        _, _, used = os.wait4(orphan, 0)
        seconds += used.ru_utime + used.ru_stime
    return seconds


if __name__ == "__main__":
    main()
