"""A node's report to its cluster: the profile that it is planned with, and whether it is as planned."""

import json
import subprocess
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numaforge.image.first_boot.kubelet_login import KubeletLogin, kubelet_login
from numaforge.image.first_boot.stamp import ISSUE, RUN, BootRecord, Inputs
from numaforge.image.first_boot.trial import Tell, keep_once_reached
from numaforge.kubelet_minors.flags import kubeconfig_path, registered_name
from numaforge.lib.errors import ExitCode, HostError, HostUnreachableError
from numaforge.lib.given import read_text
from numaforge.machine.snapshot.capture import from_local
from numaforge.machine.topology.read import read_topology
from numaforge.rollout.self_planned import ANNOTATION, CONDITION, MOST_SAID, SelfPlanned
from numaforge.verification import suite
from numaforge.verification.reach import ReachedHost, write_hosts

_JOIN_SECONDS = 600.0
_PAUSE_SECONDS = 2.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FAILED = "Failed: local: "  # pytest, and this host's name
_HELD = "the kubelet is not started: "


def report(
    say_line: Tell, kubeconfig: Path | None = None, *, only_confirms: bool = False
) -> SelfPlanned | None:
    """Verify this node, report on its Node, and return the report; None if this machine has never joined one.

    First confirms a plan on trial, once the kubelet reaches the API server; with `only_confirms` does nothing
    else. `kubeconfig` is the kubelet's, by default that of its command line. Raises HostUnreachableError
    where the API server does not answer, or the kubelet does not register.
    """
    notice = read_text(ISSUE).strip().removeprefix("numaforge: ") if ISSUE.exists() else ""
    notice = notice.replace("\\\\", "\\")  # as agetty shows it
    is_held = notice.startswith(_HELD)
    here, was = Inputs.saved(RUN), Inputs.saved()
    if is_held and here and was and here.is_in_other_hardware(was):
        return None  # the login is that of the machine in which this disk was planned
    machine = read_topology(from_local())
    flags = machine.kubelet.flags if machine.kubelet else ()
    kubeconfig = kubeconfig or Path(kubeconfig_path(flags))
    if is_held and not kubeconfig.exists():
        return None
    deadline = time.monotonic() + _JOIN_SECONDS
    if not kubeconfig.exists():
        say_line(f"the kubelet has no login yet ({kubeconfig}): waits for it for {_JOIN_SECONDS:.0f} s")
    while not kubeconfig.exists():  # kubeadm joins once cloud-init has finished
        if time.monotonic() > deadline:
            raise HostUnreachableError(
                f"the kubelet has no login after {_JOIN_SECONDS:.0f} s", where=str(kubeconfig)
            )
        time.sleep(_PAUSE_SECONDS)
    login, name = kubelet_login(kubeconfig), registered_name(flags, machine.hostname)
    boot_id = _BOOT_ID.read_text().strip()
    if not is_held:
        _until_joined(login, name, boot_id, say_line, deadline)
        keep_once_reached(login, name, deadline, say_line)
    if only_confirms:
        return None
    shortcomings = notice.removeprefix(_HELD) or _shortcomings(say_line)
    record = BootRecord.saved() or BootRecord(profile="", named_by="", plan="", at="", version="")
    answer = SelfPlanned(
        profile=record.profile,
        named_by=record.named_by,
        plan=record.plan[:16],
        version=record.version,
        boot_id=boot_id,
        verified=not shortcomings,
        says=shortcomings[:MOST_SAID],
        checked_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    )
    _set_condition(login, name, answer, is_held=is_held)
    return answer


def _until_joined(login: KubeletLogin, name: str, boot_id: str, say_line: Tell, deadline: float) -> None:
    """Wait until the Node exists, and its kubelet has reported this boot."""
    why = ""
    while True:
        try:
            status = login.node(name).get("status") or {}
            if (status.get("nodeInfo") or {}).get("bootID") == boot_id:
                return
            problem = f"the Node {name} is of another boot: its kubelet has not reported this one"
        except HostUnreachableError as error:
            problem = str(error)
        if problem != why:
            say_line(why := problem)
        if time.monotonic() > deadline:
            raise HostUnreachableError(f"the kubelet has not joined: {why}")
        time.sleep(_PAUSE_SECONDS)


def _shortcomings(say_line: Tell) -> str:
    """Compare this node with its plan like `numaforge verify`; return the differences, "" for none."""
    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        found_in, hosts = Path(folder, "report.xml"), Path(folder, "hosts")
        write_hosts([ReachedHost("@local")], hosts)
        done = subprocess.run(
            suite.command(hosts, *suite.reporting(found_in)),
            env=suite.environment(),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (ExitCode.YES, ExitCode.NO) or not found_in.exists():
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise HostError(f"the verification suite could not run: {''.join(last) or done.returncode}")
        results = suite.results(found_in)
    failed = suite.failures(results)
    for failure in failed:
        say_line(str(failure))
    if not failed:
        return ""
    why = "; ".join(failure.reason.removeprefix(_FAILED) for failure in failed)
    return f"{len(failed)} of {len(results)} promises are not kept: {why}"


def _set_condition(login: KubeletLogin, name: str, answer: SelfPlanned, *, is_held: bool) -> None:
    checked_at, status = answer.checked_at, "True" if answer.verified else "False"
    conditions = (login.node(name).get("status") or {}).get("conditions") or ()
    earlier: dict[str, Any] = next((one for one in conditions if one.get("type") == CONDITION), {})
    condition = {
        "type": CONDITION,
        "status": status,
        "reason": "AsPlanned" if answer.verified else "KubeletHeld" if is_held else "NotAsPlanned",
        "message": answer.says or f"as planned by profile {answer.profile}",
        "lastHeartbeatTime": checked_at,
        "lastTransitionTime": earlier["lastTransitionTime"]
        if earlier.get("status") == status
        else checked_at,
    }
    login.annotate(name, {ANNOTATION: json.dumps(asdict(answer))})
    login.set_condition(name, condition)
