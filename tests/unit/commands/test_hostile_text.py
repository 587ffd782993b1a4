"""No control character of a host, a kubelet or a cluster reaches a terminal, whichever command shows it."""

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from numaforge import cli
from numaforge.lib.errors import NumaforgeError
from numaforge.machine.topology.document import from_document, to_document
from numaforge.machine.topology.saved import ready_machine
from numaforge.report.terminal import line_of, style
from numaforge.rollout.self_planned import ANNOTATION, UNVERIFIED, SelfPlanned
from numaforge.rollout.slots import NODE, NODE_UID, SLOT
from tests.fixtures.api_server import ApiServer, running_api_server
from tests.fixtures.tables import cases

HOSTILE = "\x1b[2J\x1b[8m\x1b]0;t\x07\x9b31m\x85\r\x7f\u202e\u2066\u2028\nFORGED"
"""Clears the screen, hides what follows, names the window, C1, turns the direction, begins a line."""
NAMES = {"hostname", "name", "interface", "driver", "kernel", "uuid", "rdma_device", "pod", "unit", "fabric"}
"""What names a thing and decides nothing: a machine with those alone gets as far as its plan."""
MACHINES = {
    "dgx": ("dgx-h100-mig", NAMES),
    "dgx-everywhere": ("dgx-h100-mig", None),
    "mi300x": ("mi300x-cpx", NAMES),
    "gb200": ("gb200", NAMES),
}
POD = """
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec: {containers: [{name: c, resources: {limits: {cpu: "4", memory: 4Gi}}}]}
"""

Place = tuple[str | int, ...]


def _texts(document: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from _texts(value, (*place, key))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from _texts(value, (*place, number))
    elif isinstance(document, str):
        yield place, document


def _changed(document: Any, places: Sequence[Place]) -> Any:
    copied = json.loads(json.dumps(document))
    for place in places:
        holder = copied
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] += HOSTILE
    return copied


def _is_read(document: Any) -> bool:
    try:
        to_document(from_document(document))
    except NumaforgeError:
        return False
    return True


def hostile_machine(name: str, keys: Collection[str] | None) -> dict[str, Any]:
    """Return a machine with the hostile text after each text of these keys; None: where any text is read."""
    document = json.loads(json.dumps(to_document(ready_machine(name))))
    kinds: dict[Place, list[Place]] = {}
    for place, _ in _texts(document):
        if keys is None or keys & {place[-1]}:
            kinds.setdefault(tuple("*" if isinstance(key, int) else key for key in place), []).append(place)
    free = [places for places in kinds.values() if _is_read(_changed(document, places))]
    return _changed(document, [place for places in free for place in places])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hostile machines, one of each kind and its sibling, and a pod."""
    here = tmp_path_factory.mktemp("hostile")
    for name, of in MACHINES.items():
        document = hostile_machine(*of)
        (here / f"{name}.json").write_text(json.dumps(document))
        other = {**document, "hostname": f"{document['hostname']}2", "kernel": f"7.0.0{HOSTILE}"}
        (here / f"{name}-2.json").write_text(json.dumps(other))
    (here / "pod.yaml").write_text(POD)
    return here


def test_fixture_is_hostile_in_every_host_supplied_name(folder):
    document = json.loads((folder / "dgx-everywhere.json").read_text())
    hostile = {str(place[-1]) for place, text in _texts(document) if text.endswith(HOSTILE)}
    assert {"hostname", "kernel", "kernel_cmdline", "name", "interface", "driver", "uuid"} <= hostile


COMMANDS = {
    "topology": ["topology", "M"],
    "topology, the matrix": ["topology", "M", "--matrix"],
    "topology, the tree": ["topology", "M", "--ascii", "--all"],
    "topology of several": ["topology", "M", "S"],
    "plan": ["plan", "M", "--profile", "training"],
    "plan of several": ["plan", "M", "S", "--profile", "training"],
    "diff": ["diff", "M", "S", "--identifiers"],
    "diff of kinds": ["diff", "M", "O", "--identifiers"],
    "audit": ["audit", "M", "S", "O"],
    "audit, whole": ["audit", "M", "S", "O", "-v"],
    "check": ["kubelet", "check", "--machine", "M"],
    "check of a plan": ["kubelet", "check", "--machine", "M", "--profile", "training"],
    "admit": ["admit", "pod.yaml", "--machine", "M", "--profile", "training"],
    "fit": ["fit", "pod.yaml", "--machine", "M", "--machine", "S", "--profile", "training"],
    "audit of GPUs": ["audit", "--only", "gpus", "M", "-v"],
    "audit of several machines' GPUs": ["audit", "--only", "gpus", "M", "S"],
    "audit of a host": ["audit", "--only", "host", "M", "-v"],
    "gpudirect": ["audit", "--only", "gpudirect", "M", "-v"],
    "mig plan": ["mig", "plan", "--profile", "inference-mig", "M"],
    "cluster explain": ["cluster", "explain", "pod.yaml", "M", "S", "--profile", "training"],
    "a name that is refused": ["plan", f"M{HOSTILE}"],
}
FORMATS = {"json": json.loads, "yaml": yaml.safe_load}


def assert_clean(text: str) -> None:
    """Hold every character to be printable, and no line to have been begun by a host."""
    amiss = sorted({hex(ord(char)) for char in text if not char.isprintable() and char != "\n"})
    assert not amiss, text
    assert not [line for line in text.split("\n") if line.startswith("FORGED")], text


def show(words: Sequence[str], name: str, output: str = "") -> int:
    """Run a command about a machine (M), its sibling (S) and another one (O); return its exit code."""
    other = "gb200" if name == "dgx" else "dgx"
    files = {"M": f"{name}.json", "S": f"{name}-2.json", "O": f"{other}.json"}
    return cli.run([*(files.get(word, word) for word in words), *(["-o", output] if output else [])])


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_machine_text_cannot_control_the_terminal(words, name, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "500")
    code = show(words, name)
    shown = capsys.readouterr()
    assert code in (0, 1, 2), shown.err
    for text in shown:
        assert_clean(text)


@pytest.mark.parametrize(
    ("name", "output"),
    [*((name, "json") for name in COMMANDS if name != "fit"), ("diff", "yaml"), ("gpudirect", "yaml")],
)
def test_document_of_a_hostile_machine_is_valid_and_terminal_safe(name, output, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "500")
    code = show(COMMANDS[name], "dgx", output)
    shown = capsys.readouterr()
    assert code in (0, 1, 2), shown.err
    for text in shown:
        assert_clean(text)
    if code < 2 or shown.out:
        assert FORMATS[output](shown.out)


# ---- a cluster ----

REPORT = SelfPlanned("p", "boot.yaml", "f" * 64, "1", "boot", False, "not so", "2026-01-01T00:00:00Z")
PAUSED = {"nvidia.com/mig.config.state": "pending", "nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}
RUNNER = f"bob@there/machine/boot/1/2.3{HOSTILE}"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A cluster with a node whose kubelet, and whose roll-out, say the hostile text wherever they may."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "500")
    with running_api_server(tmp_path) as server:
        server.add_node("n1")
        free = {key: text for key, text in asdict(REPORT).items() if key not in ("boot_id", "verified")}
        said = {key: f"{text}{HOSTILE}" for key, text in free.items()}
        server.annotate("n1", {ANNOTATION: json.dumps({**asdict(REPORT), **said})})
        node = server.nodes["n1"]
        node["metadata"]["labels"] = PAUSED
        node["metadata"]["managedFields"] = [
            {
                "manager": f"manager{HOSTILE}",
                "operation": "Update",
                "time": "2026-01-01T00:00:00Z",
                "fieldsV1": {"f:metadata": {"f:labels": {f"f:{name}": {} for name in PAUSED}}},
            }
        ]
        node["spec"]["taints"] = [{"key": UNVERIFIED, "value": HOSTILE, "effect": "NoSchedule"}]
        node["status"]["nodeInfo"] = {"bootID": REPORT.boot_id, "kubeletVersion": f"v1.36.3{HOSTILE}"}
        ready = {"type": "Ready", "status": "False", "reason": "Lost", "message": f"it is gone{HOSTILE}"}
        node["status"]["conditions"] = [ready]
        server.add_lease(f"{SLOT}1", RUNNER, **{NODE: "n1", NODE_UID: "uid-n1"})
        yield server


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("verb", ["status", "release", "mig-labels"])
def test_kubelet_text_cannot_control_the_terminal(verb, output, api, capsys):
    asked = output if (verb, output) != ("mig-labels", "table") else "text"
    cli.run(["rollout", verb, "-o", asked, "--kubeconfig", str(api.kubeconfig)])
    shown = capsys.readouterr()
    assert "2J" in shown.out
    for text in shown:
        assert_clean(text)
    if output == "json":
        assert json.loads(shown.out)


# ---- by type ----


@cases(
    "line, shown",
    {
        "a text brings no colour along": ("a\x1b[31mb", "a\ufffd[31mb"),
        "nor within a style": (style("a\x1b[31mb", bold=True), "\x1b[1ma\ufffd[31mb\x1b[0m"),
        "nor beside a styled text": (line_of(style("a", bold=True), ": \x9b8m"), "\x1b[1ma\x1b[0m: \ufffd8m"),
        "a text made of a styled one is a text": (f"{style('a', bold=True)}", "\ufffd[1ma\ufffd[0m"),
        "a newline begins no line": ("a\nb", "a\ufffdb"),
        "a remedy follows what is wrong": ("not so\n  do this", "not so do this"),
        "nothing turns or hides": ("\N{RIGHT-TO-LEFT OVERRIDE}a\N{SOFT HYPHEN}", "\ufffda\ufffd"),
    },
)
def test_control_characters_never_reach_a_line(line, shown):
    assert line_of(line) == shown
