"""Every command with every kind of wrong file, and every wrong argument: exit code 2, one clear message."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.document import to_document
from numaforge.planning.document import to_document as plan_document
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures import machines
from tests.fixtures.processes import opens
from tests.fixtures.tables import tables
from tests.ssh import pyinfra_forks

TOPOLOGY = json.dumps(to_document(machines.lab_node()))
PLAN = json.dumps(plan_document(plan_node(machines.lab_node(), load_profile("training"))))
PLAN_IN_YAML = yaml.safe_dump(json.loads(PLAN))
CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
POD = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x, resources: {limits: {cpu: 1}}}]}\n"
MIG = "version: v1\nmig-configs: {none: [{devices: all, mig-enabled: false}]}\n"

# A command for each place at which a file comes in. FILE is the wrong one; the others are sound.
MACHINE_DOORS = (
    "topology FILE.json",
    "topology FILE.json --matrix",
    "topology FILE.json -o json",
    "plan FILE.json --profile training",
    "draw FILE.json",
    "audit --only gpus FILE.json",
    "audit --only host FILE.json",
    "audit --only gpudirect FILE.json",
    "mig check mig.yaml FILE.json",
    "mig plan mig.yaml FILE.json",
    "device-plugin check plugin.yaml FILE.json",
    "device-plugin config FILE.json --profile training",
    "rdma check rdma.json --machine FILE.json",
    "rdma config FILE.json",
    "kubelet check config.yaml --machine FILE.json --kubelet-version 1.36",
    "admit pod.yaml --machine FILE.json --config config.yaml",
    "fit pod.yaml --machine FILE.json --config config.yaml",
    "diff FILE.json topology.json",
    "diff topology.json FILE.json",
    "mig operator-config FILE.json",
    "generate amd-config-manager FILE.json",
    "rdma topology-xml FILE.json",
)
YAML_DOORS = (
    "plan topology.json --profile ./FILE.yaml",
    "admit FILE --machine topology.json --config config.yaml",
    "fit FILE --machine topology.json --config config.yaml",
    "admit pod.yaml --machine topology.json --config config.yaml --devices FILE",
    "mig check FILE topology.json",
    "mig plan FILE topology.json",
    "device-plugin check FILE",
    "rdma check FILE",
    "convert FILE",
)
CONFIG_DOORS = (
    "kubelet check FILE --machine topology.json --kubelet-version 1.36",
    "admit pod.yaml --machine topology.json --config FILE",
)
FOLDER_DOORS = (
    "topology --root FILE",
    "capture --root FILE",
    "kubelet check config.yaml --machine topology.json --kubelet-version 1.36 --drop-in FILE",
    "kubelet check config.yaml --machine topology.json --kubelet-version 1.36 --state-dir FILE",
)


def text(content: str | bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content) and None


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(65 * 2**20)


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)

# How a file is wrong, and a word of the message. `unreadable` fails for root too.
FILES = {
    "missing": (lambda _: None, "No such file or directory|the file does not exist"),
    "folder": (Path.mkdir, "Is a directory|does not hold a machine's files"),
    "binary": (text(b"\x7fELF\x02\xff\x00"), "is not UTF-8 text"),
    "wrong-encoding": (text(TOPOLOGY.encode("utf-16")), "iconv -f UTF-16"),
    "unreadable": (lambda path: path.symlink_to("/proc/self/mem"), "Input/output error"),
    "pipe": (os.mkfifo, "is a pipe without a writer"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "MiB, the limit"),
    "huge": (huge, "MiB, the limit"),
}
JSON_FILES = {
    "empty": (text(""), "not a complete JSON document"),
    "cut-off": (text(TOPOLOGY[:500]), "not a complete JSON document"),
    "deep": (text("[" * 100_000), "nested too deeply"),
    "deep-and-whole": (text('{"a": ' * 5000 + "1" + "}" * 5000), "nested too deeply"),
    "wrong-type": (text("[1, 2]"), "not a numaforge snapshot"),
    "wrong-field": (text(TOPOLOGY.replace('"swap_bytes": 0', '"swap_bytes": "0"')), "is not a whole number"),
    "key-twice": (text('{"a": 1, "a": 2}'), "the key 'a' is written twice"),
    "large-number": (text(f'{{"a": {"9" * 5000}}}'), "more than 20 digits"),
    "not-a-number": (text('{"a": NaN}'), "NaN is not valid JSON"),
    "half-a-character": (text('{"a": "\\ud800"}'), "half a character"),
    "newer-topology": (text('{"schema": 99, "packages": []}'), "upgrade numaforge"),
    "newer-snapshot": (text('{"schema": 99, "kind": "numaforge-snapshot"}'), "upgrade numaforge"),
}
YAML_FILES = {
    "empty": (text(""), ""),
    "broken": (text("a: [1,\nb"), "line 3|not valid JSON"),
    "deep": (text("a: " + "[" * 30_000), "nested too deeply|not valid JSON"),
    "bomb": (text(BOMB), "unfolds to more than|not valid JSON"),
    "own-alias": (text("a: &x [*x]"), "contains itself|not valid JSON"),
    "merge-cycle": (text("a: &x\n  <<: *x"), "contains itself|not valid JSON"),
    "tag": (text("a: !!float x"), "the tag !!float is not accepted|not valid JSON"),
    "key-twice": (
        text("a: 1\nb: 2\na: 3"),
        "line 3: the key 'a' is written twice|not valid JSON|a: unknown key",
    ),
    "large-number": (text(f"a: {'9' * 5000}"), "too many digits|not valid JSON"),
    "not-a-number": (text("a: .nan"), "is not a number|not valid JSON"),
    "a-date-that-is-none": (text("a: 2025-02-30"), ""),
    "a-control-character": (text("a: 1\nb: \x07"), "line 2: is not a text: it holds U+0007|not valid JSON"),
    "wrong-type": (text("5"), ""),
    "a-list": (text("[1, 2]"), ""),
}


# What is typed, and a part of the message.
CASES = tables(__file__)
ARGUMENTS = CASES["arguments"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "topology.json").write_text(TOPOLOGY)
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "mig.yaml").write_text(MIG)
    (tmp_path / "plugin.yaml").write_text("version: v1\n")
    (tmp_path / "rdma.json").write_text(
        '{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"ifNames": ["a"]}}]}'
    )
    (tmp_path / "plan.json").write_text(PLAN)
    (tmp_path / "plan.yaml").write_text(PLAN_IN_YAML)
    (tmp_path / "snapshot.json").write_text('{"kind": "numaforge-snapshot", "schema": 1}')
    (tmp_path / "long.json").write_text(json.dumps({"a" * 5000: 1}))
    (tmp_path / "inventory.py").write_text('nodes = ["@local"]\n')
    (tmp_path / "config.py").write_text("from numaforge.run.pyinfra_cli import adapt\n\nadapt()\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").symlink_to("nowhere")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what has to be refused as bad input, and return its message, which is all that it may print."""
    code = run(list(arguments))
    out, err = capsys.readouterr()
    assert code == ExitCode.BAD_INPUT, out + err
    assert out == ""
    assert "Traceback" not in err
    return err


def refused(capsys: pytest.CaptureFixture[str], folder: Path, door: str, wrong: object) -> str:
    words = door.split()
    name = next(word for word in words if "FILE" in word)
    make, _ = wrong
    make(folder / name)
    said = complaint(capsys, *words)
    assert "FILE" in said, "the message names the file"
    return said


def crossed(doors: tuple[str, ...], files: dict[str, object]) -> list[object]:
    return [
        pytest.param(door, wrong, id=f"{door.replace(' ', '_')}-{name}")
        for door in doors
        for name, wrong in files.items()
    ]


@pytest.mark.parametrize(
    ("door", "wrong"),
    [
        *crossed((*MACHINE_DOORS, *YAML_DOORS, *CONFIG_DOORS), FILES),
        *crossed(MACHINE_DOORS, JSON_FILES),
        *crossed(YAML_DOORS, YAML_FILES),
    ],
)
def test_a_wrong_file_is_one_clear_message(capsys, folder, door, wrong):
    said = refused(capsys, folder, door, wrong)
    assert any(word in said for word in wrong[1].split("|")), said


@pytest.mark.parametrize(
    ("door", "place"),
    [
        pytest.param(door, place, id=f"{door.replace(' ', '_')}-{place or 'no-name'}")
        for door in FOLDER_DOORS
        for place in ("missing", "config.yaml", "empty", "")
        if not ("drop-in" in door and place == "empty")  # a folder of drop-ins may be empty
    ],
)
def test_a_wrong_folder_is_one_clear_message(capsys, folder, door, place):
    said = complaint(capsys, *(place if word == "FILE" else word for word in door.split()))
    assert (place or "is empty") in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["topology", ""], "what follows 'topology' is empty", id="an-empty-source"),
        pytest.param(["capture", ""], "what follows 'capture' is empty", id="an-empty-host"),
        pytest.param(["topology", "--root="], "'--root=' is empty", id="an-empty-root"),
        pytest.param(
            ["plan", "topology.json", "--profile", "training", "--kubelet-version", ""],
            "what follows '--kubelet-version' is empty",
            id="an-empty-version",
        ),
        pytest.param(
            ["plan", "topology.json", "--profile", "training", "--kubelet-version", "1.٣"],
            "'1.٣' is not a kubelet version",
            id="a-digit-of-another-script",
        ),
        pytest.param(["capture", "../../etc/passwd"], "is not a host name", id="a-path-for-a-host"),
        pytest.param(["capture", "root@"], "is not a host name", id="a-user-without-a-host"),
        pytest.param(["capture", "a..b"], "is not a host name", id="a-name-with-an-empty-label"),
        pytest.param(["capture", "a:99999"], "'99999' is not a port", id="a-port-that-is-none"),
        pytest.param(
            ["capture", "a", "--data", "ssh_port=abc"], "'abc' is not a port", id="a-word-for-a-port"
        ),
        pytest.param(["capture", "a", "--data", "ssh_key=no"], "there is no file no", id="a-missing-key"),
        pytest.param(["kubelet", "check", "config.yaml"], "--machine names a machine", id="no-machine"),
        *(pytest.param(words.split(), message, id=words.replace(" ", "_")) for words, message in ARGUMENTS),
    ],
)
def test_a_wrong_argument_is_one_clear_message(capsys, folder, arguments, message):
    said = complaint(capsys, *arguments)
    assert message in said
    assert len(said) < 2000, "no message holds a whole file"


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        pytest.param('{"nvidia.com/gpu": [9]}', "the machine has no NUMA node 9", id="a-numa-node-9-of-4"),
        pytest.param(
            '{"gpu": [0]}', "'gpu' is not a resource name of a device plugin", id="a-name-without-domain"
        ),
        pytest.param(
            '{"a.b/c": [{"id": "x", "healthy": "false"}]}', "neither true nor false", id="a-text-for-false"
        ),
        pytest.param(
            json.dumps({"nvidia.com/gpu": [0] * 5000}), "more than the 4096 that are judged", id="too-many"
        ),
    ],
)
def test_impossible_devices_are_refused(capsys, folder, devices, message):
    (folder / "devices.json").write_text(devices)
    arguments = "admit pod.yaml --machine topology.json --config config.yaml --devices devices.json"
    assert message in complaint(capsys, *arguments.split())


@pytest.mark.parametrize("replicas", [10_001, 1_000_000, 100_000_000])
def test_too_many_replicas_are_refused_naming_the_limit(capsys, folder, replicas):
    (folder / "many.yaml").write_text(
        f"kind: Deployment\nmetadata: {{name: a}}\nspec:\n  replicas: {replicas}\n"
        "  template: {spec: {containers: [{name: x}]}}\n"
    )
    said = complaint(capsys, "admit", "many.yaml", "--machine", "topology.json", "--config", "config.yaml")
    assert "spec.replicas" in said
    assert "write 0 to 10000" in said


def test_absurd_cpu_request_is_answered(capsys, folder):
    (folder / "typo.yaml").write_text(POD.replace("cpu: 1", "cpu: 500M"))
    arguments = "fit typo.yaml --machine topology.json --config config.yaml"
    assert run(arguments.split()) == ExitCode.NO
    assert "0" in capsys.readouterr().out


def test_excessive_max_pods_is_refused_naming_the_limit(capsys, folder):
    (folder / "config.yaml").write_text(f"{CONFIG}maxPods: 2147483647\n")
    (folder / "pod.yaml").write_text("kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x}]}\n")
    arguments = "fit pod.yaml --machine topology.json --config config.yaml"
    assert "more than 5000 pods" in complaint(capsys, *arguments.split())


# ---- as processes ----


def program(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "numaforge", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nosuch.py", "there is no inventory nosuch.py; name a file, a folder or a host"),
        ("nosuch/inventory.py", "there is no inventory nosuch/inventory.py"),
        ("inventory.py --deploy nosuch", "nosuch: the deploy does not exist"),
        ("/dev/zero", "/dev/zero: is larger than 4 MiB"),
        ("/dev/null", "/dev/null names no host"),
        ("nosuch", "numaforge: nosuch is neither a file nor a name that resolves"),
        ("inventory.py --limit a,b", "that --limit a,b chooses\n  give --limit once for each"),
    ],
)
def test_bad_inventory_path_for_apply_is_one_message(folder, words, message):
    answer = pyinfra_forks.numaforge("apply", "--dry", *words.split(), folder=folder)
    assert (answer.returncode, answer.stdout) == (ExitCode.BAD_INPUT, "")
    assert message in answer.stderr
    assert answer.stderr.startswith("numaforge: ")
    assert "Traceback" not in answer.stderr


def test_unsupported_terminal_characters_are_escaped(folder):
    answer = program("topology", "topology.json", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (answer.returncode, answer.stderr) == (ExitCode.YES, b"")
    assert b"\\u00b7" in answer.stdout


def test_ascii_terminal_gets_the_same_json(folder):
    arguments = ("plan", "topology.json", "--profile", "training", "-o", "json")
    ascii_only = program(*arguments, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert json.loads(ascii_only.stdout) == json.loads(program(*arguments).stdout)


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        pytest.param(">&-", ExitCode.YES, "", id="closed-output"),
        pytest.param(">/dev/full", ExitCode.BAD_INPUT, "standard output: No space left", id="a-full-disk"),
    ],
)
def test_lost_output_causes_no_traceback(folder, redirection, code, message):
    command = f"{sys.executable} -m numaforge topology topology.json {redirection}"
    answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == code
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "redirection", [pytest.param("2>&-", id="closed"), pytest.param("2>/dev/full", id="full")]
)
@pytest.mark.parametrize("source", ["nosuch.json", "--nosuch"], ids=["of-ours", "of-click"])
def test_unprintable_error_keeps_its_exit_code(folder, source, redirection):
    command = f"{sys.executable} -m numaforge topology {source} {redirection}"
    answer = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60, check=False)
    assert answer.returncode == ExitCode.BAD_INPUT


def test_an_interrupt_ends_with_its_exit_code_and_one_line(folder):
    """A pipe that a program has open, and into which it writes nothing, keeps the command waiting."""
    os.mkfifo(folder / "pipe")
    command = [sys.executable, "-m", "numaforge", "topology", "pipe"]
    writer = os.open(folder / "pipe", os.O_RDWR)
    waiting = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell has what it starts in the background ignore it, these tests perhaps.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert opens(waiting, folder / "pipe")
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=60)
    finally:
        os.close(writer)
        waiting.kill()
    assert (waiting.returncode, out, err) == (130, "", "numaforge: interrupted\n")


def test_missing_completion_variables_are_named(folder):
    answer = program(env=os.environ | {"_NUMAFORGE_COMPLETE": "bash_complete"})
    assert answer.returncode == ExitCode.BAD_INPUT
    assert b"COMP_WORDS and COMP_CWORD are not set" in answer.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk that is full."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with suppress(OSError):
            (place / "kept.yaml").write_text("kept")
            (place / "fill").write_bytes(bytes(2**20))
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_full_disk_keeps_the_old_file_and_names_its_path(folder, small_disk, capsys):
    for words, name in (("convert config.yaml --to", "kept.yaml"), ("draw topology.json --to", "new.svg")):
        target = small_disk / name
        assert f"{target}: No space left on device" in complaint(capsys, *words.split(), str(target))
    assert f"{small_disk / 'fleet'}: cannot be written: No space left" in complaint(
        capsys, "init", str(small_disk / "fleet")
    )
    words = ("render", "topology.json", "--profile", "training", "--to", str(small_disk / "made"))
    assert "made: cannot be written: No space left" in complaint(capsys, *words)
    assert sorted(path.name for path in small_disk.iterdir()) == ["fill", "kept.yaml"]
    assert (small_disk / "kept.yaml").read_text() == "kept"


def test_rollout_logs_need_a_folder(folder, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nosuch")
    said = complaint(capsys, "rollout", "plan", "inventory.py")
    assert "the log of pyinfra cannot be written: No such file or directory" in said
    assert "logs are kept below XDG_STATE_HOME" in said


def test_missing_home_and_empty_environment_are_accepted(folder):
    answer = program("plan", "topology.json", "--profile", "training", env={})
    assert (answer.returncode, answer.stderr) == (ExitCode.YES, b"")


def test_invalid_json_on_standard_input_is_refused(folder):
    answer = program("topology", "-", input=b"no json")
    assert answer.returncode == ExitCode.BAD_INPUT
    assert b"standard input: not a complete JSON document" in answer.stderr


@pytest.mark.parametrize(
    ("name", "what"),
    [pytest.param("notes", "file", id="file"), pytest.param("empty", "folder", id="folder")],
)
@pytest.mark.parametrize("command", ["capture", "measure"])
def test_local_file_or_folder_is_not_a_host(folder, command, name, what):
    (folder / "notes").write_text("of this week\n")
    answer = pyinfra_forks.numaforge(command, name, folder=folder)
    assert answer.returncode == ExitCode.UNREACHABLE
    assert f"numaforge: {name}: is a {what}, and no host of that name answers: " in answer.stderr
    assert "or an inventory: a file NAME.py" in answer.stderr


def test_closed_standard_input_is_reported(folder):
    command = f"{sys.executable} -m numaforge admit - --machine topology.json --config config.yaml <&-"
    answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == ExitCode.BAD_INPUT
    assert "standard input: cannot be read: it is closed" in answer.stderr


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["--limit", "nosuch", "@local", "exec", "--", "true"], "no host is left", id="a-limit-of-nothing"
        ),
        pytest.param(
            ["nosuch.py", "exec", "--", "true"], "there is no inventory nosuch.py", id="a-missing-inventory"
        ),
        pytest.param(
            ["nosuch/inventory", "exec", "--", "true"], "there is no inventory", id="a-missing-folder"
        ),
    ],
)
def test_run_without_hosts_is_refused(folder, arguments, message):
    command = [sys.executable, "-m", "numaforge.run", "-y", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == ExitCode.BAD_INPUT
    assert message in answer.stdout + answer.stderr


def test_unknown_pyinfra_connector_is_named(folder):
    answer = pyinfra_forks.numaforge("capture", "@bogus/x", folder=folder)
    assert answer.returncode == ExitCode.BAD_INPUT
    assert "@bogus/x: is not a host name that pyinfra accepts: Invalid connector: bogus" in answer.stderr
    assert "Traceback" not in answer.stderr
