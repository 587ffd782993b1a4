"""A fleet with nothing to change, over loopback SSH: `site.py` beside an Ansible play for the same files.

One sshd in a sandbox of tests/ssh stands for every host, each under an address of its own in 127.0.0.0/8, so
that each is a connection of its own. The play copies the files that the plan lists, with mode and owner, with
pipelining and shared connections, gathering no facts; it neither detects the machine nor reads a kernel
setting back, which `site.py` does.

The sshd and the shells that it starts run on the same cores as the controller. Their CPU time is shown by
itself: on real hosts it is not the controller's. So there is a second run of `site.py`, with hosts that say
what the first has said and do not look for it: a login and two `cat` are what they still cost.

numaforge is what a user has: its wheel in a virtual environment of its own. Each package beside it costs a
start of pyinfra a millisecond, and a checkout has three times as many.

    bench/fleet.py [--no-ansible] [HOSTS ...]

Needs root; ansible-core is installed into a temporary folder.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from numaforge.rollout import events
from tests.fixtures.machines import KUBEADM_CONFIG
from tests.fixtures.wheel import build, install
from tests.ssh.machine import machine
from tests.ssh.many_hosts import Listener, address, children, know, listening
from tests.ssh.sandbox import REPOSITORY, Sandbox, cannot_run, free_port, running_sandbox
from tests.ssh.standin_systemd import standin_systemd

COUNTS = (1, 30, 100, 300)
FORKS = 50  # of Ansible; pyinfra has a connection to every host at once
SAMPLE_SECONDS = 0.25
PR_SET_CHILD_SUBREAPER = 36
CORES = len(os.sched_getaffinity(0))
PROFILE = {
    "name": "bench",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 16}],
    "kubelet": {"cpu_manager_policy": "static"},
    "tuning": {"governor": "performance", "sysctls": {"vm.swappiness": "1"}, "numa_balancing": False},
}
REPEAT = """#!/bin/sh
# What a host said to the first that asked it this way is said to all others; what they send is read.
name=$(printf '%s' "$SSH_ORIGINAL_COMMAND" | cksum)
answer=/run/answers/${name%% *}
if [ ! -e "$answer" ]; then
    mkdir -p "${answer%/*}"
    sh -c "$SSH_ORIGINAL_COMMAND" > "$answer.new" && mv "$answer.new" "$answer"
else
    cat > /dev/null
fi
exec cat "$answer"
"""
Hosts = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Cost:
    """What a run took: seconds by the clock, CPU seconds here and on the hosts, MiB of all processes here."""

    wall: float
    controller: float
    hosts: float
    peak_mib: float


@dataclass(frozen=True)
class Programs:
    """The commands of a virtual environment, by its folder of programs."""

    folder: Path

    def site(self, inventory: Path) -> list[str]:
        return [str(self.folder / "pyinfra"), "-y", str(inventory), "deploys/site.py"]

    def apply(self, inventory: Path) -> list[str]:
        return [str(self.folder / "numaforge"), "apply", "--yes", str(inventory)]

    def verify(self, inventory: Path) -> list[str]:
        """Return the command that holds hosts to their plans; its answer is no, as no systemd runs there."""
        return [str(self.folder / "numaforge"), "verify", str(inventory)]

    def survey(self, inventory: Path) -> list[str]:
        """Return the command with which a roll-out asks its hosts what they need: with every core."""
        ours = [str(self.folder / "python"), "-m", "numaforge.run"]
        return ["env", f"{events.PROCESSES}={CORES}", *ours, "--dry", str(inventory), "deploys/site.py"]


@dataclass(frozen=True)
class Fleet:
    """Many hosts in one sandbox: behind one sshd they look, behind the other they repeat what was said."""

    sandbox: Sandbox
    looks: Listener
    repeats: Listener

    def hosts(self, count: int, *, repeat: bool = False) -> dict[str, dict[str, object]]:
        """Return so many hosts, as an inventory has them."""
        port = (self.repeats if repeat else self.looks).port
        data = {**self.sandbox.data(), "ssh_port": port, "numaforge_profile": PROFILE}
        data |= {"kubelet_stable_seconds": 1}
        return {f"node-{number}": data | {"ssh_hostname": address(number)} for number in range(1, count + 1)}

    def cpu_seconds(self) -> float:
        """Return the CPU time of all sessions that have ended."""
        return self.looks.cpu_seconds() + self.repeats.cpu_seconds()


def main() -> None:
    parser = argparse.ArgumentParser(description="measure a fleet with nothing to change")
    parser.add_argument("counts", nargs="*", type=int, default=COUNTS, metavar="HOSTS")
    parser.add_argument("--no-ansible", action="store_true", help="do not measure a play beside it")
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    reason = cannot_run()
    if reason:
        sys.exit(f"no measurement: {reason}")
    adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = installed(folder)
        with running_fleet(folder, max(chosen.counts)) as fleet:
            measure(fleet, ours, folder, chosen)


def measure(fleet: Fleet, ours: Programs, folder: Path, chosen: argparse.Namespace) -> None:
    """Bring the machine to its plan once, then measure runs that change nothing."""
    inventory = write_inventory(folder, fleet.hosts(1))
    for changed in (True, False):
        output = run(ours.site(inventory), folder)
        if ("Success" in output.split("Results:")[0]) != changed:
            sys.exit(output)
    play = None if chosen.no_ansible else install_ansible(fleet, folder)
    print(f"{CORES} cores, a load of {os.getloadavg()[0]:.1f} before; median of {chosen.runs} runs")
    print(f"{'hosts':>5}  {'':38} {'wall s':>7} {'CPU ms per host':>16} {'of sshd, shells':>16} {'MiB':>5}")
    run(ours.site(write_inventory(folder, fleet.hosts(1, repeat=True), "repeats")), folder)
    for count in chosen.counts:
        inventory = write_inventory(folder, fleet.hosts(count))
        repeating = write_inventory(folder, fleet.hosts(count, repeat=True), "repeats")
        commands = {
            "pyinfra -y deploys/site.py": ours.site(inventory),
            "the same, with hosts that repeat": ours.site(repeating),
            "numaforge apply --yes": ours.apply(inventory),
            "the same, of hosts that repeat": ours.apply(repeating),
            "the survey of a roll-out": ours.survey(inventory),
            "numaforge verify": ours.verify(inventory),
        }
        if play:
            commands["ansible-playbook (files only)"] = play(fleet.hosts(count))
        costs = {
            name: median(chosen.runs, partial(cost, each, folder, fleet)) for name, each in commands.items()
        }
        for name, each in costs.items():
            print(
                f"{count:5}  {name:38} {each.wall:7.2f} {each.controller / count * 1000:16.0f} "
                f"{each.hosts / count * 1000:16.0f} {each.peak_mib:5.0f}",
                flush=True,
            )
        if play:
            one, *_, theirs = costs.values()
            cpu = theirs.controller / one.controller
            print(
                f"       ansible-playbook takes {theirs.wall / one.wall:.1f} times as long, {cpu:.1f} of CPU"
            )


def installed(folder: Path) -> Programs:
    """Return the programs of this checkout's wheel, installed below a folder."""
    venv = folder / "installed"
    install(build("wheel", REPOSITORY, folder / "wheel"), venv)
    return Programs(venv / "bin")


def median(runs: int, action: Callable[[], Cost]) -> Cost:
    """Return the run whose time by the clock is the median."""
    costs = sorted((action() for _ in range(runs)), key=lambda cost: cost.wall)
    return costs[len(costs) // 2]


# ---- what a run costs ----


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind: the connections that ssh shares."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def cost(command: Sequence[str], folder: Path, fleet: Fleet) -> Cost:
    """Run a command to its end, with all that it leaves behind."""
    before_hosts, ours = fleet.cpu_seconds(), children()
    start = time.perf_counter()
    with (folder / "run.log").open("wb") as log:
        process = start_run(command, folder, log)
        with peak_memory(process.pid) as peak:
            _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = used.ru_utime + used.ru_stime
    for orphan in children() - ours - {process.pid}:
        os.kill(orphan, signal.SIGTERM)
        _, _, used = os.wait4(orphan, 0)
        seconds += used.ru_utime + used.ru_stime
    output = (folder / "run.log").read_text(errors="replace")
    expected = 1 if "verify" in command else 0
    if process.returncode != expected or "changed=1" in output or "Success" in output.split("Results:")[0]:
        sys.exit(f"{command}: {process.returncode}\n{output[-3000:]}")
    return Cost(wall, seconds, fleet.cpu_seconds() - before_hosts, peak[0] / 1024)


def run(command: Sequence[str], folder: Path) -> str:
    with (folder / "run.log").open("wb") as log:
        start_run(command, folder, log).wait()
    return (folder / "run.log").read_text(errors="replace")


def start_run(command: Sequence[str], folder: Path, log: object) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "HOME": str(folder),
        "PYINFRA_PROGRESS": "off",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )


@contextmanager
def peak_memory(pid: int) -> Iterator[list[float]]:
    """Sample the KiB of a process and of all below it, shared pages counted once (PSS)."""
    peak, done = [0.0], threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], sum(map(pss, descendants(pid))))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peak
    finally:
        done.set()
        sampler.join()


def descendants(pid: int) -> Iterator[int]:
    yield pid
    try:
        below = children(pid)
    except OSError:  # it has ended
        return
    for child in below:
        yield from descendants(child)


def pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


# ---- the fleet ----


@contextmanager
def running_fleet(folder: Path, count: int) -> Iterator[Fleet]:
    health = free_port()
    files = {
        **machine(),
        **standin_systemd(health),
        "/var/lib/kubelet/config.yaml": KUBEADM_CONFIG.replace("10248", str(health)),
        "/usr/local/bin/repeat": REPEAT,
        "/usr/lib/systemd/system/kubelet.service": (
            "[Service]\nExecStart=/usr/local/bin/kubelet --config=/var/lib/kubelet/config.yaml\n"
        ),
    }
    with running_sandbox(folder, files) as sandbox:
        sandbox.run("mkdir -p /run/systemd/system; systemctl start kubelet.service")
        looks = listening(sandbox, count, "fleet_config")
        repeats = listening(sandbox, count, "repeating_config", "ForceCommand /usr/local/bin/repeat\n")
        know(sandbox, (looks, repeats), count)
        yield Fleet(sandbox, looks, repeats)


def write_inventory(folder: Path, hosts: Hosts, name: str = "inventory") -> Path:
    inventory = folder / f"{name}.py"
    inventory.write_text(f"nodes = {[(name, dict(data)) for name, data in hosts.items()]!r}\n")
    return inventory


# ---- the play beside it ----


def write_playbook(sandbox: Sandbox, folder: Path) -> Path:
    """Write a playbook that copies what the plan lists, as it is on the host now."""
    planned = json.loads(sandbox.path("/etc/numaforge/plan.json").read_text())["files"]
    tasks = [
        {
            "name": file["path"],
            "ansible.builtin.copy": {
                "dest": file["path"],
                "content": "{% raw %}" + sandbox.path(file["path"]).read_text() + "{% endraw %}",
                "mode": file["mode"],
                "owner": file["owner"],
                "group": file["group"],
            },
        }
        for file in planned
    ]
    playbook = folder / "playbook.json"  # JSON is YAML
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    return playbook


def install_ansible(fleet: Fleet, folder: Path) -> Callable[[Hosts], list[str]]:
    """Install ansible-core beside a playbook; return what makes the command that plays it."""
    playbook = write_playbook(fleet.sandbox, folder)
    environment = folder / "ansible"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    subprocess.run(
        [str(environment / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "ansible-core"],
        check=True,
    )
    data = fleet.sandbox.data()
    (folder / "ansible.cfg").write_text(
        f"[defaults]\nforks = {FORKS}\n[connection]\npipelining = True\n[ssh_connection]\n"
        f"ssh_args = -o UserKnownHostsFile={data['ssh_known_hosts_file']} -o ControlMaster=auto "
        f"-o ControlPersist=60s -o ControlPath={folder}/%C\n"
    )

    def play(hosts: Hosts) -> list[str]:
        inventory = folder / "hosts.ini"
        inventory.write_text(
            "".join(
                f"{name} ansible_host={data['ssh_hostname']} ansible_port={data['ssh_port']} "
                f"ansible_user=root ansible_ssh_private_key_file={data['ssh_key']} "
                "ansible_python_interpreter=/usr/bin/python3\n"
                for name, data in hosts.items()
            )
        )
        return [str(environment / "bin/ansible-playbook"), "-i", str(inventory), str(playbook)]

    return play


if __name__ == "__main__":
    main()
