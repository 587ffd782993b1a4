"""Every way of ssh_config(5) to reach a host, with `ssh` itself and with our commands: who answers."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from numaforge.machine.snapshot.model import Snapshot
from tests.ssh import sk_agent
from tests.ssh.sandbox import cannot_run
from tests.ssh.site_runs import plain
from tests.ssh.ssh_machines import (
    PROGRAMS,
    Answer,
    Controller,
    host_key,
    make_key,
    running_machines,
    swappiness,
)
from tests.ssh.ssh_rows import (
    FILES,
    KEY_KINDS,
    MACHINES,
    NAMES,
    OTHERS,
    PATIENCE,
    REFUSED,
    ROWS,
    SECOND_NAMES,
    UNREACHABLE,
    Row,
)

PROFILE = {
    "name": "named",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "tuning": {"sysctls": {"vm.swappiness": "1"}},
}
_OF_SSH = {
    "ssh_config_file": "-F",
    "ssh_port": "-p",
    "ssh_user": "-l",
    "ssh_key": "-i",
    "ssh_known_hosts_file": "-oUserKnownHostsFile=",
    "ssh_strict_host_key_checking": "-oStrictHostKeyChecking=",
}
_BY_SWAPPINESS = {str(swappiness(number)): each.name for number, each in enumerate(MACHINES)}


@dataclass(frozen=True)
class Outcome:
    """What a command says of a host: the machine that answered, else the reason and the host's state."""

    machine: str | None
    reason: str = ""
    state: str = ""


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    if reason := cannot_run():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("ssh")
    hosts = "".join(
        f"{address} {name}\n" for names in (NAMES, SECOND_NAMES) for name, address in names.items()
    )
    with running_machines(folder, MACHINES, hosts, KEY_KINDS, prepare) as controller:
        silent = controller.sandbox.path("/machines/silent/pid").read_text().strip()
        controller.sandbox.run(f"kill -STOP {silent}")
        agents = start_agents(controller)
        yield controller
        controller.sandbox.run(f"kill -CONT {silent}")
        for agent in agents:
            agent.send_signal(signal.SIGTERM)
            agent.wait()


@pytest.fixture(scope="module")
def by_ssh(controller: Controller) -> dict[str, Outcome]:
    """Who answers to `ssh`, by row."""
    write_inventory(controller, ROWS)
    return ask_ssh(controller, ROWS)


@pytest.mark.long
def test_table_matches_ssh(by_ssh):
    assert differences(by_ssh, {name: row.by_ssh for name, row in ROWS.items()}) == []


@pytest.mark.long
@pytest.mark.parametrize("command", ["apply --dry", "verify", "capture", "pyinfra"])
def test_command_reaches_the_same_machine_as_ssh(controller, command):
    inventory = write_inventory(controller, ROWS)
    found = COMMANDS[command](controller, inventory)
    assert differences(found, {name: row.reaches for name, row in ROWS.items()}) == []
    if command in ("apply --dry", "verify"):
        assert reasons_amiss(found) == []


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["unknown-key", "wrong-user", "bad-option", "no-listener"], 1),
        (["no-such-name", "no-listener", "jump-closed"], 6),
    ],
    ids=["some refuse", "some do not answer"],
)
def test_refusing_host_does_not_count_as_unreachable(controller, names, code):
    mixed = write_inventory(controller, {name: ROWS[name] for name in ("a-name-alone", *names)})
    for words in (["capture", mixed, "--to", str(controller.folder / "mixed")], ["apply", "--dry", mixed]):
        answer = ours(controller, "numaforge", *words)
        assert (answer.code, "a-name-alone" in answer.said) == (code, True), f"{words[0]}: {answer.said}"
    answer = ours(
        controller, "numaforge", "verify", write_inventory(controller, {name: ROWS[name] for name in names})
    )
    assert answer.code == code, answer.said


def test_without_ssh_only_a_plain_ssh_config_is_read(controller):
    names = ("data-config-file", "jump-of-all-but-the-bastion", "match-final")
    inventory, to = (
        write_inventory(controller, {name: ROWS[name] for name in names}),
        controller.folder / "plain",
    )
    words = ["numaforge", "capture", inventory, "--to", str(to)]
    answer = ours(controller, "env", f"PATH={PROGRAMS}", *words)
    assert machine_of(to / "data-config-file.snapshot.json") == "gpu-b", answer.said
    assert answer.code == 1
    notice = f"{','.join(names)}: there is no program ssh on this machine: ssh_config is read without Include"
    refusal = f"{','.join(names[1:])}: there is no program ssh on this machine, and "
    assert (notice in answer.said, refusal in answer.said) == (True, True), answer.said


def write_inventory(controller: Controller, rows: Mapping[str, Row]) -> str:
    """Write the inventory of rows, and return its path; what earlier runs have learnt of hosts is gone."""
    learned = controller.home / ".ssh/learned"
    shutil.rmtree(learned, ignore_errors=True)
    learned.mkdir()
    hosts = [
        (name, {**host_data(controller, name, row), "numaforge_profile": PROFILE})
        for name, row in rows.items()
    ]
    file = controller.folder / "inventory.py"
    file.write_text(f"rows = {hosts!r}\n")
    return str(file)


def host_data(controller: Controller, name: str, row: Row) -> dict[str, object]:
    own = {"ssh_config_file": str(own_file(controller, name))} if row.file else {}
    return {
        **own,
        **{
            key: filled(value, controller) if isinstance(value, str) else value
            for key, value in row.data.items()
        },
    }


def own_file(controller: Controller, name: str) -> Path:
    return controller.home / ".ssh/rows" / name


def filled(text: str, controller: Controller) -> str:
    """Return a text of the table with its places."""
    for place, value in (
        ("{home}", str(controller.home)),
        ("{agents}", str(controller.sockets)),
        ("{others}", OTHERS),
    ):
        text = text.replace(place, value)
    return text


def differences(found: Mapping[str, Outcome], wanted: Mapping[str, str | None]) -> list[str]:
    """Return a line for each row that leads elsewhere, or nowhere."""
    return [
        f"{name}: {found[name].machine or found[name].reason.strip()[-300:]}, expected {machine}"
        for name, machine in wanted.items()
        if found[name].machine != machine
    ]


def reasons_amiss(found: Mapping[str, Outcome]) -> list[str]:
    """Return a line for each row whose reason or state is another than the table has, or lacks a remedy."""
    return [
        f"{name}: {outcome.state}: {outcome.reason!r}, expected {row.state}: {row.says!r}"
        for name, outcome in found.items()
        if (row := ROWS[name]).reaches is None
        and (
            row.says not in outcome.reason
            or row.state not in (None, outcome.state)
            or "\n  " not in outcome.reason
        )
    ]


# ---- the commands ----


def ask_ssh(controller: Controller, rows: Mapping[str, Row]) -> dict[str, Outcome]:
    """Return who answers to `ssh`, all at once."""
    (out := controller.folder / "by-ssh").mkdir(exist_ok=True)
    lines = "".join(
        f"ssh -oBatchMode=yes {options(controller, name, row)} -- "
        f"{row.data.get('ssh_hostname') or name} cat /proc/sys/kernel/hostname "
        f"> {out}/{name} 2> {out}/{name}.error < /dev/null &\n"
        for name, row in rows.items()
    )
    controller.run("sh", stdin=f"{lines}wait\n", environment=agents_of(controller))
    return {
        name: Outcome((out / name).read_text().strip() or None, (out / f"{name}.error").read_text())
        for name in rows
    }


def options(controller: Controller, name: str, row: Row) -> str:
    """Return host data as options of ssh."""
    data = host_data(controller, name, row)
    return shlex.join(f"{_OF_SSH[key]}{value}" for key, value in data.items() if key in _OF_SSH)


def capture(controller: Controller, inventory: str) -> dict[str, Outcome]:
    to = controller.folder / "captured"
    answer = ours(controller, "numaforge", "capture", inventory, "--to", str(to))
    found = {}
    for name in ROWS:
        if (file := to / f"{name}.snapshot.json").exists():
            found[name] = Outcome(machine_of(file))
        else:
            found[name] = Outcome(None, answer.err)
    return found


def machine_of(snapshot: Path) -> str:
    """Return the machine of a snapshot."""
    return Snapshot.from_json(snapshot.read_text()).files["/proc/sys/kernel/hostname"]


def apply_dry(controller: Controller, inventory: str) -> dict[str, Outcome]:
    answer = ours(controller, "numaforge", "apply", "--dry", inventory, "-o", "json")
    hosts = json.loads(answer.out)["hosts"]
    return {
        name: Outcome(
            machine_in(" ".join(hosts[name]["values"])), hosts[name]["reason"], hosts[name]["state"]
        )
        for name in ROWS
    }


def verify(controller: Controller, inventory: str) -> dict[str, Outcome]:
    """Return who answers the suite: each machine has a plan that cannot be read, of its own name."""
    plans = [
        (each.name, controller.sandbox.path(f"/machines/{each.name}/numaforge/plan.json"))
        for each in MACHINES
    ]
    for name, plan in plans:
        plan.write_text(json.dumps({"schema": name}))
    try:
        answer = ours(controller, "numaforge", "verify", inventory, "-o", "json")
    finally:
        for _, plan in plans:
            plan.unlink()
    found = {}
    for test in json.loads(answer.out)["tests"]:
        name, said = test["host"].removeprefix("ssh://"), test["reason"]
        if name in ROWS and name not in found:
            named = next((each.name for each in MACHINES if f"has schema '{each.name}'" in said), None)
            found[name] = Outcome(named, said, UNREACHABLE if test["unreachable"] else REFUSED)
    return {name: found.get(name, Outcome(None, answer.err)) for name in ROWS}


def plain_pyinfra(controller: Controller, inventory: str) -> dict[str, Outcome]:
    answer = ours(controller, "pyinfra", "-y", inventory, "exec", "--", "cat", "/proc/sys/kernel/hostname")
    text = plain(answer.out + answer.err)
    names = {each.name for each in MACHINES}
    found = re.findall(r"^\s*\[(\S+)\]\s+(\S+)$", text, re.MULTILINE)
    answered = {name: machine for name, machine in found if machine in names}
    return {name: Outcome(answered.get(name), text) for name in ROWS}


COMMANDS: Mapping[str, Callable[[Controller, str], dict[str, Outcome]]] = {
    "apply --dry": apply_dry,
    "verify": verify,
    "capture": capture,
    "pyinfra": plain_pyinfra,
}


def machine_in(text: str) -> str | None:
    """Return the machine whose vm.swappiness a text names."""
    said = re.search(r"swappiness: (\d+) ->", text)
    return _BY_SWAPPINESS[said[1]] if said else None


def ours(controller: Controller, *words: str) -> Answer:
    """Run a command of ours, in the repository's folder; it prints no traceback."""
    learned = controller.home / ".ssh/learned"
    shutil.rmtree(learned)
    learned.mkdir()
    answer = controller.run(*words, environment=agents_of(controller))
    assert "Traceback" not in answer.said, answer.said
    return answer


# ---- the controller's files ----


def prepare(controller: Controller) -> None:
    """Write root's ~/.ssh on the controller, and the certificates of machines."""
    ssh = controller.home / ".ssh"
    for place in ("rows", "learned"):
        (ssh / place).mkdir()
    for file, text in FILES.items():
        (ssh / file).parent.mkdir(exist_ok=True)
        (ssh / file).write_text(filled(text, controller))
    config = "".join(
        sorted((row.raw for row in ROWS.values()), key=lambda raw: not raw.startswith("Include"))
    )
    for name, row in ROWS.items():
        block = f"Host {name}\n{indented(row.config)}\n" if row.config else ""
        if row.file:
            own_file(controller, name).write_text(filled(block + row.file + PATIENCE, controller))
        else:
            config += block
    (ssh / "config").write_text(filled(config + OTHERS + PATIENCE, controller))
    make_keys(ssh)
    certify(controller)
    know(controller)


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def make_keys(ssh: Path) -> None:
    """Make the keys that no machine lets in by themselves, and copies of others by other names."""
    strangers = [f"stranger_{number}" for number in range(8)]
    for key in ("stranger", "certified", "certified_too", "authority", *strangers):
        make_key(ssh / key)
    for copy in ("other_of_root", "other_of_key-of-token-host", "other key", "other_open", "other_locked"):
        shutil.copy(ssh / "other", ssh / copy)
        shutil.copy(ssh / "other.pub", ssh / f"{copy}.pub")
    (ssh / "other_open").chmod(0o644)
    token = ssh / "on_a_token"
    token.write_text(sk_agent.private_file(sk_agent.public_key(Ed25519PrivateKey.generate())))
    token.chmod(0o600)
    keygen("-p", "-N", "secret", "-P", "", "-f", str(ssh / "other_locked"))
    for key in ("certified", "certified_too"):
        keygen("-s", str(ssh / "authority"), "-I", key, "-n", "root", str(ssh / f"{key}.pub"))
    (ssh / "certified-cert.pub").rename(ssh / "elsewhere-cert.pub")


def certify(controller: Controller) -> None:
    """Sign the host keys of machines that have certificates, and name the authority of users."""
    authority = controller.home / ".ssh/authority"
    for name, more in (
        ("certified", ("-n", "certified")),
        ("expired", ("-n", "expired", "-V", "20200101:20200102")),
        ("misnamed", ("-n", "another")),
    ):
        public = controller.sandbox.path(f"/machines/{name}/ed25519.pub")
        keygen("-s", str(authority), "-h", "-I", name, *more, str(public))
    shutil.copy(authority.with_suffix(".pub"), controller.sandbox.path("/machines/trusting/authority.pub"))


def know(controller: Controller) -> None:
    """Write the files of known hosts."""
    ssh = controller.home / ".ssh"
    key = {each.name: host_key(controller, each.name, each.host_keys[-1]) for each in MACHINES}
    authority = (ssh / "authority.pub").read_text().strip()
    unknown = ("unknown", "bastion-u", "changed", "certified", "expired", "misnamed")
    own = [
        f"{known_name(each.name, each.port)} {key[each.name]}"
        for each in MACHINES
        if each.name not in unknown
    ]
    (ssh / "known_hosts").write_text(
        "\n".join(
            [
                "# a comment, an empty line and one that is no key",
                "",
                "gpu-a",
                *own,
                f"[127.0.0.12]:2200,other.name {key['bastion-2']}",
                f"[fd00::11]:2200 {key['bastion-6']}",
                f"fd00::6 {key['six']}",
                f"127.0.0.3,alias-of-c,[canonical.fleet]:2222 {key['gpu-c']}",
                f"hostname-token.fleet {key['gpu-b']}",
                f"*.pattern,!node8.pattern {key['gpu-b']}",
                f"*.pattern,!node8.pattern {key['gpu-a']}",
                f"@revoked revoked {key['revoked']}",
                f"changed {key['gpu-a']}",
                f"twin {key['gpu-a']}",
                f"@cert-authority certified,expired,misnamed {authority}",
            ]
        )
        + "\n"
    )
    (ssh / "hashed").write_text(f"hashed {key['gpu-b']}\n")
    keygen("-H", "-f", str(ssh / "hashed"))
    with (ssh / "known_hosts").open("a") as file:
        file.write((ssh / "hashed").read_text())
    (ssh / "known_second").write_text(f"second-file {key['gpu-b']}\n")
    (ssh / "known spaced").write_text(f"spaced-file {key['gpu-b']}\n")
    (ssh / "known_of_known-in-file-of-host").write_text(f"gpu-b {key['gpu-b']}\n")
    (ssh / "unknown_key").write_text(f"{key['unknown']}\n")
    (ssh / "revoked_keys").write_text(f"{key['gpu-b']}\n")
    (ssh / "known_for_hop").write_text(f"bastion-u {key['bastion-u']}\ninner {key['inner']}\n")
    (controller.folder / "ssh/ssh_known_hosts").write_text(f"global {key['gpu-b']}\n")


def known_name(name: str, port: int) -> str:
    return name if port == 22 else f"[{name}]:{port}"


def keygen(*words: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *words], check=True, stdin=subprocess.DEVNULL, capture_output=True)


# ---- agents ----


def agents_of(controller: Controller) -> dict[str, str]:
    """Return the environment that names agents."""
    agents = controller.sockets
    return {"SSH_AUTH_SOCK": str(agents / "environment"), "OTHER_AGENT": str(agents / "other")}


def start_agents(controller: Controller) -> list[subprocess.Popen[bytes]]:
    """Start the agents, each with its keys."""
    ssh, agents = controller.home / ".ssh", controller.sockets
    (ssh / "secret").write_text("#!/bin/sh\necho secret\n")
    (ssh / "secret").chmod(0o700)
    asks = {"SSH_ASKPASS": str(ssh / "secret"), "SSH_ASKPASS_REQUIRE": "force"}
    keys = {
        "environment": ["in_environment"],
        "other": ["other"],
        "locked": ["other_locked"],
        "full": [*(f"stranger_{number}" for number in range(8)), "in_full"],
        "certified": ["certified_too"],
    }
    started = []
    for name in keys:
        started.append(controller.start("ssh-agent", "-D", "-a", str(agents / name)))
    token = agents / "token.pub"
    started.append(controller.start(sys.executable, sk_agent.__file__, str(agents / "token"), str(token)))
    for name in (*keys, "token"):
        await_file(agents / name)
    for name, held in keys.items():
        added = controller.run(
            "ssh-add",
            *(str(ssh / key) for key in held),
            environment={"SSH_AUTH_SOCK": str(agents / name), **asks},
        )
        assert added.code == 0, added.said
    shutil.copy(token, controller.sandbox.path("/machines/tokened/authorized_keys"))
    return started


def await_file(file: Path) -> None:
    deadline = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline, f"there is no {file}"
        time.sleep(0.02)
