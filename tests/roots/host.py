"""A sandbox over a release's own packages, on which a run has applied what `PROFILE` asks for."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.roots import Release, build
from tests.ssh.confined import CONFINED
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, free_port, pyinfra, running_sandbox
from tests.ssh.site_runs import data, plain
from tests.ssh.standin_devices import devices, install
from tests.ssh.standin_systemd import standin_systemd

PROFILE: dict[str, Any] = {
    "name": "everything",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "tuning": {
        "governor": "performance",
        "numa_balancing": False,
        "sysctls": {"vm.swappiness": 10},
        "transparent_hugepages": {"enabled": "never"},
        "swap": "off",
    },
    "interrupts": CONFINED["interrupts"],
    "system": {"daemons": "reserved"},
    "modules": {"options": {"ib_core": ["netns_mode=1"]}, "blocked": ["nouveau"]},
    "host": {
        "limits": {"nofile": 4096, "memlock": "4Mi", "core": 0, "stack": "64Mi"},
        "hold_packages": ["containerd"],
        "cgroup": "v2",
    },
}
NOTHING: dict[str, Any] = {"name": "nothing", "cpus": PROFILE["cpus"]}
_LEFT = ("/etc/numaforge", "/etc/numaforge/plan.json")
"""The plan stays, and its folder."""


@dataclass(frozen=True)
class Host:
    """A provisioned host, and the files that it had before."""

    release: Release
    node: Sandbox
    folder: Path
    before: Mapping[str, str]

    def provision(self, profile: Mapping[str, Any]) -> str:
        """Have a run apply a profile, and return what it said."""
        done = pyinfra(self.folder, {"node": data(self.node, profile)}, "-y", "-v", "deploys/site.py")
        assert done.returncode == 0, done.stdout
        return plain(done.stdout)

    def says(self, script: str) -> str:
        """Return what a script printed that has to succeed."""
        done = self.node.run(script)
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout


@contextmanager
def provisioned(release: Release, folder: Path) -> Iterator[Host]:
    """Start a host of the release, apply everything, and end it."""
    files = {**machine(), **devices(), **standin_systemd(free_port())}
    with running_sandbox(folder, files, build(release.suite)) as node:
        node.run("rm /usr/local/bin/kubelet; mkdir -p /run/when /run/systemd/system")
        install(node)
        host = Host(release, node, folder, files_of(node))
        host.provision(PROFILE)
        yield host


def files_of(node: Sandbox) -> dict[str, str]:
    """Return what stands below /etc and /usr/local, by path: mode, owner, and content or target."""
    found = node.run(
        "find /etc /usr/local \\( -type d -printf '%p\\t%M %u %g\\n' \\) -o"
        " \\( -type l -printf '%p\\t%l\\n' \\) -o -printf '%p\\t%M %u %g '"
        " -exec sh -c 'sha256sum < \"$1\"' sh {} \\;"
    )
    lines = (line.partition("\t") for line in found.stdout.splitlines())
    return {path: text for path, _, text in lines if path not in _LEFT}
