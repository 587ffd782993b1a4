"""Several hosts of no cluster in one run: canaries first, then the others within their limit."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.ssh import pyinfra_forks
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine, pool
from tests.ssh.sandbox import REPOSITORY, Sandbox, pyinfra
from tests.ssh.site_runs import PROFILE, data, inventory, plain

POOL, SWAPPINESS = pool(0, 2048), "/proc/sys/vm/swappiness"
POOLS = {**PROFILE, "tuning": {}}
"""A change that needs a host without work."""
SYSCTL = {name: value for name, value in PROFILE.items() if name != "hugepages"}
"""A change that disturbs nothing."""
Hosts = Mapping[str, Sandbox]
Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def hosts(start_sandbox: StartSandbox) -> Hosts:
    """Four hosts without a kubelet."""
    return {f"gpu-{number}": start_sandbox(machine()) for number in range(1, 5)}


def breaks(host: Sandbox, path: str) -> None:
    """Have each write to a file of the kernel fail."""
    assert host.run(f"mount --bind {path} {path} && mount -o remount,bind,ro {path}").returncode == 0


def by_pyinfra(
    folder: Path, hosts: Hosts, profile: object, *more: str, **options: object
) -> tuple[int, dict[str, Any]]:
    """Run plain pyinfra; return its exit code and each host's state."""
    report = folder / "report.json"
    found = {name: {**data(host, profile), "numaforge_rollout": options} for name, host in hosts.items()}
    done = pyinfra(folder, found, "-y", *more, "deploys/site.py", "--data", f"report={report}")
    print(plain(done.stdout))
    return done.returncode, json.loads(report.read_text())["hosts"]


def by_apply(
    folder: Path, hosts: Hosts, profile: object, *more: str, **options: object
) -> tuple[int, dict[str, Any]]:
    """Run `numaforge apply`; return its exit code and each host's state."""
    found = {name: {**data(host, profile), "numaforge_rollout": options} for name, host in hosts.items()}
    arguments = ("apply", str(inventory(folder, found)), "-y", "-o", "json", *more)
    environment = {**os.environ, "HOME": str(folder), "PYINFRA_PROGRESS": "off"}
    done = pyinfra_forks.numaforge(*arguments, folder=REPOSITORY, environment=environment)
    print(plain(done.stderr))
    return done.returncode, json.loads(done.stdout)["hosts"]


HOW = pytest.mark.parametrize("run", [by_pyinfra, by_apply], ids=["pyinfra", "apply"])


def touched(hosts: Hosts) -> list[str]:
    """Return the hosts on which a transaction has begun."""
    return [name for name, host in hosts.items() if [*host.path("/var/lib/numaforge/txn").glob("*/state")]]


@pytest.mark.variants(1)
@HOW
@pytest.mark.parametrize(
    ("profile", "path"),
    [
        pytest.param(POOLS, POOL, id="a-change-that-disturbs-work"),
        pytest.param(SYSCTL, SWAPPINESS, id="a-change-that-disturbs-nothing", marks=pytest.mark.long),
    ],
)
def test_failed_canary_ends_the_run_before_the_others_are_touched(hosts, tmp_path, run, profile, path):
    breaks(hosts["gpu-1"], path)
    code, states = run(tmp_path, hosts, profile)
    assert code != 0
    assert touched(hosts) == ["gpu-1"]
    assert states["gpu-1"]["state"] in ("rolled back", "held")
    assert [states[f"gpu-{number}"]["state"] for number in (2, 3, 4)] == ["blocked"] * 3
    assert "not begun: gpu-1 is " in states["gpu-4"]["reason"]
    assert "no more than 0 may fail" in states["gpu-4"]["reason"]


def changed_at(host: Sandbox) -> tuple[float, float]:
    """Return when a host's transaction was handed to it, and when it ended."""
    (folder,) = [file.parent for file in host.path("/var/lib/numaforge/txn").glob("*/result.json")]
    return (folder / "token").stat().st_mtime, (folder / "result.json").stat().st_mtime


def most_together(times: list[tuple[float, float]]) -> int:
    """Return how many intervals overlap at most."""
    return max(sum(begun <= at < ended for begun, ended in times) for at, _ in times)


@pytest.mark.parametrize(
    ("profile", "options", "first", "together"),
    [
        pytest.param(POOLS, {}, "gpu-1", 1, id="one-at-a-time-by-default"),
        pytest.param(
            POOLS,
            {"max_unavailable": "2", "canary_hosts": ["gpu-3"]},
            "gpu-3",
            2,
            id="a-named-canary-and-waves",
            marks=pytest.mark.long,
        ),
        pytest.param(SYSCTL, {}, "gpu-1", 3, id="what-disturbs-nothing-together", marks=pytest.mark.long),
        pytest.param(
            SYSCTL, {"max_unavailable": "1"}, "gpu-1", 1, id="unless-that-is-limited", marks=pytest.mark.long
        ),
    ],
)
def test_canary_is_first_and_the_others_respect_their_limit(
    hosts, tmp_path, profile, options, first, together
):
    code, states = by_pyinfra(tmp_path, hosts, profile, **options)
    assert code == 0
    assert {each["state"] for each in states.values()} == {"changed"}
    times = {name: changed_at(host) for name, host in hosts.items()}
    others = [found for name, found in times.items() if name != first]
    assert min(begun for begun, _ in others) >= times[first][1]
    assert most_together(others) <= together


@pytest.mark.long
def test_host_as_planned_does_not_count_as_canary(hosts, tmp_path):
    few = {name: hosts[name] for name in ("gpu-1", "gpu-2", "gpu-3")}
    assert by_pyinfra(tmp_path, {"gpu-1": hosts["gpu-1"]}, POOLS)[0] == 0
    breaks(hosts["gpu-2"], POOL)
    _, states = by_pyinfra(tmp_path, few, POOLS)
    assert [each["state"] for each in states.values()] == ["unchanged", "rolled back", "blocked"]


@pytest.mark.long
def test_serial_run_stops_at_the_first_failure(hosts, tmp_path):
    for host in hosts.values():
        breaks(host, POOL)
    _, states = by_pyinfra(tmp_path, hosts, POOLS, "--serial")
    assert Counter(each["state"] for each in states.values()) == {"rolled back": 1, "blocked": 3}
    assert len(touched(hosts)) == 1


def test_named_canary_that_cannot_be_changed_begins_nothing(hosts, tmp_path):
    few = {name: hosts[name] for name in ("gpu-1", "gpu-2")}
    hosts["gpu-2"].run(f"rm {POOL}")
    _, states = by_pyinfra(tmp_path, few, POOLS, canary_hosts=["gpu-2"])
    assert states["gpu-2"]["state"] == "refused"
    assert "gpu-2 is a canary, and cannot be changed" in states["gpu-1"]["reason"]
    assert touched(few) == []
