"""What admins do by mistake, each ending in one message with the remedy.

No case may end in a traceback, with exit code 70, or after more than some seconds.
"""

import io
import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.document import to_document
from numaforge.planning.document import to_document as plan_document
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures import machines
from tests.fixtures.tables import tables
from tests.ssh import pyinfra_forks

BAD, NO = ExitCode.BAD_INPUT, ExitCode.NO
LONG = "9" * 5000
CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailSwapOn: false\n"
CHECK = "kubelet check FILE --machine topology.json --kubelet-version 1.36"
POD = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x, resources: {limits: {%s}}}]}\n"
ADMIT = "admit FILE --machine topology.json --config config.yaml"
PLAN = "plan topology.json --profile ./FILE --kubelet-version 1.36"
PLUGIN = "device-plugin check FILE gpus.json"


@dataclass(frozen=True)
class Mistake:
    """A command with FILE in it, what that file says, how it ends, and a part of the message."""

    words: str
    text: str
    message: str
    code: int = BAD
    name: str = "file.yaml"
    files: Mapping[str, str] = field(default_factory=dict)


def config(more: str) -> str:
    return f"{CONFIG}{more}\n"


def replaced(document: object, path: tuple[object, ...], value: object) -> str:
    """Return a JSON document with one value in the place of another."""
    inside = document = json.loads(json.dumps(document))
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return json.dumps(document)


PLANNED = plan_document(plan_node(machines.lab_node(), load_profile("training")))
CUT = to_document(machines.cut_into(("1c.3g.40gb", "1g.10gb"), None))
INSTANCE = ("gpus", 0, "gpu_instances", 0)
ROCKET = '[settings.kubernetes]\ncpu-manager-policy = "static"\n[settings.boot.kernel-parameters]\n'
SHARING = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %s}]}}\n"

MISTAKES = {
    **{
        name: Mistake(words, **case)
        for words, cases in tables(__file__).items()
        for name, case in cases.items()
    },
    # what is too long, or a document of today with one value in the place of another
    "a percentage of 5,000 digits": Mistake(
        CHECK, config(f'qosReserved: {{memory: "{LONG}%"}}'), "invalid number in percentage", NO
    ),
    "a quantity of 5,000 zeros and a letter": Mistake(
        CHECK, config(f'kubeReserved: {{memory: "{"0" * 5000}x"}}'), "quantities must match", NO
    ),
    "a quantity of 5,000 nines and GB": Mistake(
        CHECK, config(f'systemReserved: {{memory: "{LONG}GB"}}'), "quantities must match", NO
    ),
    "CPUs of 5,000 digits": Mistake(ADMIT, POD % f'cpu: "{LONG}"', "is not a Kubernetes quantity"),
    "replicas of 5,000 digits": Mistake(PLUGIN, SHARING % LONG, "digits"),
    "a number of 5,000 digits in TOML": Mistake(
        "convert FILE", f"{ROCKET}audit = [{LONG}]\n", "too many digits", name="rocket.toml"
    ),
    "TOML that is too deep": Mistake(
        "convert FILE", f"{ROCKET}audit = {'[' * 5000}\n", "not valid TOML", name="rocket.toml"
    ),
    "pages of 5,000 digits": Mistake(
        "convert FILE", f'linuxConfig: {{hugepageConfig: {{hugepage_size1g: "{LONG}"}}}}\n', "number of pages"
    ),
    "a GPU instance before the first slice": Mistake(
        "plan FILE --profile inference-mig --kubelet-version 1.36",
        replaced(CUT, (*INSTANCE, "start"), -1),
        "gpus[0].gpu_instances[0].start: -1 is not a memory slice",
    ),
    "a GPU instance of no slices": Mistake(
        "draw FILE",
        replaced(CUT, (*INSTANCE, "size"), 0),
        "gpus[0].gpu_instances[0].size: 0 memory slices",
    ),
    "a NUMA node with less than no memory": Mistake(
        "draw FILE", replaced(CUT, ("numa_nodes", 0, "memory_bytes"), -1), "numa_nodes[0].memory_bytes"
    ),
    "cores of the kubelet that are not there": Mistake(
        "plan FILE --profile cpu-only --kubelet-version 1.36",
        replaced(CUT, ("kubelet_cores",), [{"package": 0, "numa_node": 0, "cpus": "900"}]),
        "kubelet_cores[0].cpus: CPU 900 is not online",
    ),
    "a GPU with a name of 5,000 letters": Mistake(
        "draw FILE", replaced(CUT, ("gpus", 0, "name"), LONG), "<svg", ExitCode.YES
    ),
    "a limit of a sysctl of 5,000 digits": Mistake(
        PLAN, f'tuning: {{sysctls: {{vm.max_map_count: "{LONG}"}}}}\n', "vm.max_map_count"
    ),
    "an option of 5,000 digits": Mistake(
        PLAN,
        f"kubelet: {{topology_manager_policy: restricted, topology_manager_options: "
        f'{{max-allowable-numa-nodes: "{LONG}"}}}}\n',
        "is not a number",
    ),
    "a name of 5,000 letters": Mistake(PLAN, f"name: {'a' * 5000}\n", "is longer than 255 characters"),
    "a NUMA node twice": Mistake(
        "topology FILE",
        replaced(CUT, ("numa_nodes",), [*CUT["numa_nodes"], CUT["numa_nodes"][0]]),
        "numa_nodes[4].id: NUMA node 0 is listed twice",
    ),
    "no NUMA node": Mistake("topology FILE", replaced(CUT, ("numa_nodes",), []), "there is no NUMA node 0"),
    "a plan that reserves a CPU that is not there": Mistake(
        "fit pod.yaml --machine topology.json --plan FILE",
        replaced(PLANNED, ("cpus", "reserved"), "0,900"),
        "file.yaml: reserves CPU 900, which the machine lacks",
        files={"pod.yaml": POD % "cpu: 1"},
    ),
    "a plan with a list of CPUs": Mistake(
        "plan FILE",
        replaced(PLANNED, ("cpus", "reserved"), [0, 1]),
        "plan.cpus.reserved: [0, 1] is not a text",
    ),
    "a plan of a later release": Mistake("plan FILE", replaced(PLANNED, ("schema",), 2), "upgrade numaforge"),
    "a plan of no release": Mistake("plan FILE", replaced(PLANNED, ("schema",), 0), "schema 0, not 1"),
    "a plan with a remark": Mistake(
        "plan FILE", replaced(PLANNED, ("comment",), "mine"), "plan.comment: unknown key"
    ),
    "a plan that names no template of ours": Mistake(
        "render FILE", replaced(PLANNED, ("files", 1, "template"), "../x"), "there is no template '../x'"
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "topology.json").write_text(json.dumps(to_document(machines.lab_node())))
    (tmp_path / "gpus.json").write_text(json.dumps(to_document(machines.dgx_h100())))
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "plan.json").write_text(json.dumps(PLANNED))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_one_clear_message(folder: Path, mistake: Mistake) -> None:
    (folder / mistake.name).write_text(mistake.text)
    for name, text in mistake.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(mistake.words.replace("FILE", mistake.name).split())
    said = out.getvalue() + err.getvalue()
    assert code == mistake.code, said
    assert mistake.message in said
    assert "Traceback" not in said


# ---- pyinfra ----

INVENTORIES = {
    "no host": ("inventory.py", "nodes = []\n", "inventory.py names no host: nodes is empty"),
    "a text for a list": (
        "inventory.py",
        'nodes = "gpu-01"\n',
        'nodes is the text \'gpu-01\', and no list; write nodes = ["gpu-01", "gpu-02"]',
    ),
    "an empty file": ("inventory.py", "", "it has no list; write nodes = ["),
    "a private list": ("inventory.py", '_nodes = ["a"]\n', "_nodes begins with an underscore"),
    "a mapping": ("inventory.py", 'nodes = {"gpu-01": {}}\n', "and no list"),
    "numbers": ("inventory.py", "nodes = [1]\n", "nodes holds 1, which is not a host name"),
    "a tuple of names": ("inventory.py", 'nodes = ("a", "b")\n', "is neither a list nor a pair"),
    "a pair of one": ("inventory.py", 'nodes = [("a",)]\n', "is not a pair of a name and its data"),
    "names alone": (
        "hosts",
        "gpu-01 gpu-02\n",
        "an inventory is Python, or one of Ansible: docs/from-ansible.md",
    ),
    "a typing error": ("inventory.py", "nodes = [\n", "inventory.py, line 1"),
    "a file that ends Python": ("inventory.py", "raise SystemExit(0)\n", "inventory.py: ends the program"),
    "a character of no text": (
        "inventory.py",
        'nodes = ["a"]\n\0',
        "inventory.py: source code string cannot",
    ),
    "UTF-16": ("inventory.py", b"\xff\xfen\0", "inventory.py: is not UTF-8 text"),
    "a host twice": (
        "inventory.py",
        'nodes = [("a", {"ssh_port": 2}), ("a", {"ssh_port": 3})]\n',
        "nodes: names a twice, with other data",
    ),
    "a name of no letter": ("inventory.py", 'nodes = [""]\n', "nodes: holds '', which is not a host name"),
    "data by a number": ("inventory.py", 'nodes = [("a", {1: 2})]\n', "a has data by 1, not a key"),
    "a byte order mark": (
        "inventory.py",
        '\ufeffnodes = ["a"]\n',
        "inventory.py, line 1: invalid non-printable character U+FEFF; save the file without a byte order",
    ),
    "numaforge's profile": (
        "nodes.yaml",
        "extends: training\n",
        "nodes.yaml names no host: ansible-inventory",
    ),
}


def pyinfra(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "config.py").write_text("from numaforge.run.pyinfra_cli import adapt\n\nadapt()\n")
    (folder / "deploy.py").write_text("")
    return pyinfra_forks.run(words, {**os.environ, "PYINFRA_PROGRESS": "off"}, 120, folder)


@pytest.mark.parametrize(
    ("mode", "case"),
    [("--dry", case) for case in INVENTORIES]
    + [("-y", case) for case in ("no host", "a text for a list", "an empty file")],
)
def test_an_inventory_without_hosts_ends_with_the_reason(tmp_path, mode, case):
    name, text, message = INVENTORIES[case]
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    done = pyinfra(tmp_path, mode, name, "deploy.py")
    said = done.stdout
    assert done.returncode == BAD, said
    assert message in said
    assert "Traceback" not in said


RUNS = {
    "a profile beside the inventory, from elsewhere": (
        ("--dry", "relative.py", "deploy_of_ours.py"),
        1,
        "looked",
    ),
    "the deploy first": (("--dry", "deploy_of_ours.py", "inventory.py"), BAD, "the inventory comes first"),
    "a host that does not resolve": (("--dry", "gpu-01.invalid", "deploy.py"), BAD, "neither a file nor"),
    "a range of Ansible": (("--dry", "gpu-[01-03]", "deploy.py"), BAD, "neither a file nor"),
    "a typing error in a deploy": (("--dry", "inventory.py", "typo.py"), 1, "typo.py, line 1: "),
    "a module that is not there": (
        ("--dry", "inventory.py", "missing.py"),
        1,
        "missing.py, line 1: ModuleNotFoundError: No module named 'nosuch'",
    ),
    "data without a value": (("--dry", "--data", "x", "inventory.py", "deploy.py"), 1, "--data is KEY=VALUE"),
    "no host that can be reached": (
        ("--dry", "closed.py", "deploy.py"),
        1,
        "no host is left; the reason for each is above",
    ),
}


@pytest.mark.parametrize(("words", "code", "message"), RUNS.values(), ids=list(RUNS))
def test_a_mistake_on_pyinfras_command_line_is_one_message(tmp_path, words, code, message):
    (tmp_path / "inventory.py").write_text('nodes = ["@local"]\n')
    data = {"numaforge_profile": "profiles/nodes.yaml"}
    (tmp_path / "relative.py").write_text(f"nodes = [('@local', {data})]\n")
    (tmp_path / "closed.py").write_text('nodes = [("a", {"ssh_hostname": "127.0.0.1", "ssh_port": 1})]\n')
    (tmp_path / "typo.py").write_text("x = = 1\n")
    (tmp_path / "missing.py").write_text("import nosuch\n")
    (tmp_path / "deploy_of_ours.py").write_text("from numaforge.deploys import site  # noqa: F401\n")
    done = pyinfra(tmp_path, *words)
    said = done.stdout
    assert done.returncode == code, said
    assert message in said
    assert "Traceback" not in said
    assert "No hosts remaining" not in said


OF_NO_GROUP = {
    "a group that has hosts": ({"gpu_nodes.py"}, []),
    "all hosts": ({"all.py"}, []),
    "the group of the inventory's file": ({"inventory.py"}, []),
    "what is no data": ({"README.md", ".gitkeep"}, []),
    "a group of another inventory": ({"a100.py"}, []),
    "a group like one that has its file": ({"gpu_node.py", "gpu_nodes.py"}, []),
    "YAML, as Ansible has it": ({"all.yml"}, ["all.yml: pyinfra reads group_data/*.py alone; "]),
    "a group spelt in another way": (
        {"gpu-nodes.py"},
        ["gpu-nodes.py: no host is in a group of that name; did you mean gpu_nodes.py?"],
    ),
    "all hosts spelt in another way": (
        {"All.py"},
        ["All.py: no host is in a group of that name; did you mean all.py?"],
    ),
}


@pytest.mark.parametrize("place", ["inventory.py", "fleet/inventory.py"], ids=["here", "elsewhere"])
@pytest.mark.parametrize(("files", "expected"), OF_NO_GROUP.values(), ids=list(OF_NO_GROUP))
def test_group_data_file_without_effect_is_named(tmp_path, files, expected, place):
    inventory = tmp_path / place
    (inventory.parent / "group_data").mkdir(parents=True)
    inventory.write_text('gpu_nodes = ["@local"]\nstorage = ["disk-01"]\n')
    for name in files:
        (inventory.parent / "group_data" / name).write_text("a = 1\n")
    done = pyinfra(tmp_path, place, "debug-inventory")
    assert done.returncode == 0, done.stdout
    folder = str(Path(place).parent / "group_data")
    said = [line for line in done.stdout.splitlines() if line.startswith(folder)]
    assert len(said) == len(expected), done.stdout
    for notice, begin in zip(said, expected, strict=True):
        assert notice.startswith(f"{folder}/{begin}")


OF_NO_HOST = {
    "a user before the name": ('"root@gpu-1"', 'write ("gpu-1", {"ssh_user": "root"})'),
    "a port behind the name": ('"gpu-1:2222"', 'write ("gpu-1", {"ssh_port": 2222})'),
    "both": ('"root@gpu-1:22"', 'write ("gpu-1", {"ssh_user": "root", "ssh_port": 22})'),
    "two names": ('"gpu-1,gpu-2"', "write a name, an address or an alias"),
    "a blank": ('" gpu-1"', "write a name, an address or an alias"),
    "a network": ('"10.0.0.0/24"', "write a name, an address or an alias"),
    "an address": ('"ssh://gpu-1"', "write a name, an address or an alias"),
    "an option of ssh": ('"-oProxyCommand=x"', "write a name, an address or an alias"),
    "an address in Ansible's words": ('("gpu-1", {"ansible_host": "10.0.0.7"})', "write ssh_hostname"),
    "no user": ('("gpu-1", {"ssh_user": None})', "ssh_user: None is not accepted; leave it out, or write a"),
    "no port": ('("gpu-1", {"ssh_port": None})', "ssh_port: None is not accepted; leave it out, or write a"),
}


@pytest.mark.parametrize(("host", "message"), OF_NO_HOST.values(), ids=list(OF_NO_HOST))
def test_host_unknown_to_ssh_is_refused_alone(tmp_path, host, message):
    (tmp_path / "inventory.py").write_text(f"nodes = ['@local', {host}]\n")
    done = pyinfra(tmp_path, "inventory.py", "debug-inventory")
    assert message in done.stdout
    assert "Invalid connector data" not in done.stdout
    assert "Traceback" not in done.stdout


def test_host_with_an_address_may_have_any_name(tmp_path):
    (tmp_path / "inventory.py").write_text('nodes = [("rack 3, place 7", {"ssh_hostname": "10.0.0.7"})]\n')
    done = pyinfra(tmp_path, "inventory.py", "debug-inventory")
    assert "is not a host name" not in done.stdout


# ---- keys of SSH ----


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name, passphrase in (("plain", ""), ("locked", "right")):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", folder / name],
            check=True,
            timeout=60,
        )
    (folder / "empty").write_text("")
    (folder / "putty").write_text("PuTTY-User-Key-File-3: ssh-ed25519\n")
    (folder / "note").write_text("the key is on the other machine\n")
    (folder / "cut").write_text((folder / "plain").read_text()[:200])
    return folder


KEYS = {
    "the public half": ("plain.pub", None, "is the public half: name the private one, "),
    "empty": ("empty", None, "is empty"),
    "encrypted": ("locked", None, "is encrypted, and no agent has it"),
    "a wrong passphrase": ("locked", "wrong", "ssh_key_password does not open the key"),
    "PuTTY's": ("putty", None, "is PuTTY's; convert it: `puttygen "),
    "no key": ("note", None, "is not a private key"),
    "cut short": ("cut", None, "it is cut short"),
}


@pytest.mark.parametrize(("name", "password", "message"), KEYS.values(), ids=list(KEYS))
def test_unusable_key_is_named_with_the_remedy(keys, tmp_path, name, password, message):
    data = {"ssh_hostname": "127.0.0.1", "ssh_port": 1, "ssh_key": str(keys / name)}
    data |= {"ssh_key_password": password} if password else {}
    (tmp_path / "inventory.py").write_text(f"nodes = [('gpu-01', {data!r})]\n")
    done = pyinfra(tmp_path, "--dry", "inventory.py", "deploy.py")
    said = done.stdout
    assert done.returncode == 1, said
    assert message in said
    assert "Traceback" not in said
    assert "EOF error" not in said


@pytest.mark.parametrize(("name", "password", "message"), KEYS.values(), ids=list(KEYS))
def test_capture_reports_key_errors_in_the_same_words(keys, tmp_path, name, password, message):
    words = ["capture", "127.0.0.1:1", "--data", f"ssh_key={keys / name}"]
    words += ["--data", f"ssh_key_password={password}"] if password else []
    done = pyinfra_forks.numaforge(*words, folder=tmp_path)
    assert done.returncode == BAD, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
