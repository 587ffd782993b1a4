"""One way to name a machine: the same names with every command, as an argument or with --machine."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from numaforge import cli
from numaforge.cli import run
from numaforge.commands import machine
from numaforge.lib.errors import ExitCode, HostError, HostUnreachableError
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.document import to_document
from numaforge.machine.topology.saved import NO_HOST, ready_machine, ready_machines
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.tables import cases, tables
from tests.machines.files import stored
from tests.ssh import pyinfra_forks

CASES = tables(__file__)


def leaves(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*words, name))
        else:
            yield (*words, name), command


TAKES_A_MACHINE = {
    words: command
    for words, command in leaves(cli.numaforge)
    if any("--machine" in parameter.opts for parameter in command.params)
}
POD = "metadata: {name: one}\nspec: {containers: [{name: main}]}\n"
MIG = "version: v1\nmig-configs: {all: [{devices: all, mig-enabled: false}]}\n"
PLUGIN = "version: v1\n"
POOLS = '{"configList": [{"resourceName": "hca", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}]}'
KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
FIRST = {
    ("admit",): ["pod.yaml"],
    ("fit",): ["pod.yaml"],
    ("kubelet", "check"): ["kubelet.yaml", "--kubelet-version", "1.36"],
    ("mig", "check"): ["mig.yaml"],
    ("mig", "plan"): ["mig.yaml"],
    ("mig", "operator-config"): ["--profile", "inference-mig"],
    ("generate", "amd-config-manager"): ["--profile", "handed.yaml"],
    ("device-plugin", "check"): ["plugin.yaml"],
    ("device-plugin", "config"): ["--profile", "shared.yaml"],
    ("rdma", "check"): ["pools.json"],
    ("rdma", "config"): ["--profile", "rdma.yaml"],
    ("rdma", "manifests"): ["--profile", "rdma.yaml", "--image", "image"],
    ("generate", "cluster"): ["--profile", "training"],
    ("cluster", "explain"): ["pod.yaml", "--profile", "training"],
    ("cluster", "verify"): ["--profile", "training", "--kubectl", "true"],  # which finds none of the objects
    ("plan",): ["--profile", "training"],
    ("render",): ["--profile", "training"],
}
OF_AMD = {("generate", "amd-config-manager"): "mi300x"}
"""Commands that take machines of AMD's alone."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "pod.yaml": POD,
        "mig.yaml": MIG,
        "plugin.yaml": PLUGIN,
        "pools.json": POOLS,
        "kubelet.yaml": KUBELET,
        "shared.yaml": "extends: inference-mig\ndevice_plugin: {time_slicing: {nvidia.com/gpu: 4}}\n",
        "handed.yaml": "extends: mi300x-cpx\namd_partitions: {managed_by: device-config-manager}\n",
        "rdma.yaml": "extends: training\nrdma: {device_plugin: {per: rail}}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_machine_command_accepts_a_machine_name():
    assert {
        *[("topology",), ("plan",), ("draw",), ("kubelet", "check"), ("admit",), ("fit",), ("audit",)],
        *[("generate", "runtime-class"), ("mig", "check"), ("mig", "plan")],
        *[("mig", "operator-config"), ("device-plugin", "check"), ("device-plugin", "config")],
        *[("rdma", name) for name in ("config", "check", "manifests", "env", "topology-xml")],
    } <= TAKES_A_MACHINE.keys()


@pytest.mark.parametrize(
    "words", [words for words in TAKES_A_MACHINE if words != ("generate", "runtime-class")], ids=" ".join
)
def test_machine_option_names_a_ready_machine(words, folder, capsys):
    name = OF_AMD.get(words, "dgx-h100")
    assert run([*words, *FIRST.get(words, []), "--machine", name]) in (ExitCode.YES, ExitCode.NO)
    assert capsys.readouterr().out


def test_machine_argument_equals_machine_option(capsys):
    answers = []
    for words in (["dgx-h100"], ["--machine", "dgx-h100"]):
        assert run(["topology", *words, "-o", "json"]) == ExitCode.YES
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


@cases("words, reason", CASES["invalid_machine_name_is_refused"])
def test_invalid_machine_name_is_refused(words, reason, folder, capsys):
    assert run(words) == ExitCode.BAD_INPUT
    assert reason in capsys.readouterr().err


def test_compressed_snapshot_is_refused_with_the_unpack_command(capsys):
    file = stored("nvidia-gh200").snapshot_file
    assert run(["topology", str(file)]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.endswith(f"is compressed\n  unpack it first: xz -dk {file}\n")


def test_host_name_is_captured_live(monkeypatch, capsys):
    asked = []

    def answer(host: str, data: tuple[str, ...]) -> Snapshot:
        asked.append(host)
        return stored("nvidia-gh200").snapshot()

    monkeypatch.setattr(machine, "captured", answer)
    assert run(["topology", "ubuntu@gpu-01:2222"]) == ExitCode.YES
    assert asked == ["ubuntu@gpu-01:2222"]
    assert "gh200-01" in capsys.readouterr().out


def test_unreachable_host_suggests_the_nearest_ready_machine(monkeypatch, capsys):
    def silent(host: str, data: tuple[str, ...]) -> Snapshot:
        raise HostError("cannot be reached", where=host, remedy="check its name")

    monkeypatch.setattr(machine, "captured", silent)
    assert run(["topology", "dgx-h10"]) == ExitCode.BAD_INPUT
    said = capsys.readouterr().err
    assert (
        said
        == "numaforge: dgx-h10: cannot be reached\n  check its name; or name the ready machine dgx-h100\n"
    )


def test_file_takes_precedence_over_ready_machine_of_same_name(folder, capsys):
    (folder / "dgx-h100").write_text(dumps(plan_node(ready_machine("epyc-nps4"), load_profile("cpu-only"))))
    assert run(["plan", "dgx-h100"]) == ExitCode.YES
    assert capsys.readouterr().out.startswith("epyc-01 ")


def test_the_shell_completes_ready_machines():
    command = TAKES_A_MACHINE["topology",]
    (argument,) = [one for one in command.params if isinstance(one, click.Argument)]
    context = click.Context(command)
    offered = [item.value for item in argument.shell_complete(context, "")]
    assert offered == [*ready_machines()]
    assert [item.value for item in argument.shell_complete(context, "hgx-b")] == ["hgx-b200"]
    assert [item.type for item in argument.shell_complete(context, "./x")] == ["file"]


def test_json_of_a_ready_machine_is_read_back(folder, capsys):
    run(["topology", "mi300x", "-o", "json"])
    text = capsys.readouterr().out
    (folder / "saved.json").write_text(text)
    run(["topology", "saved.json", "-o", "json"])
    assert json.loads(capsys.readouterr().out) == json.loads(text)


# ---- several machines at once ----


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]


def test_several_machines_share_one_table(capsys):
    assert run(["topology", "dgx-h100", "gh200"]) == ExitCode.YES
    assert lines_of(capsys) == [
        ["Machine", "CPUs", "NUMA", "Memory", "GPUs", "NICs", "Kubelet"],
        ["dgx-01", "224", "2", "2", "TiB", "8", "x", "H100", "80GB", "HBM3", "8", "1.36.3"],
        ["gh200-01", "72", "9", "576", "GiB", "1", "x", "GH200", "480GB", "0", "1.36.3"],
    ]


def live(words: str) -> tuple[int, str]:
    """Return the exit code and the message of a command that asks hosts, which patches its process."""
    done = pyinfra_forks.numaforge(*words.split(), folder=Path.cwd())
    return done.returncode, done.stderr


@pytest.mark.variants(1)
@pytest.mark.parametrize("words", ["capture", "measure", "measure --last"])
def test_live_command_on_a_ready_machine_finds_no_host(words):
    code, said = live(f"{words} dgx-h100")
    assert code == ExitCode.UNREACHABLE
    assert said.startswith(f"numaforge: dgx-h100: {NO_HOST}, and no host of that name answers: ")
    assert "\n  name a host; `numaforge topology dgx-h100 -o json`" in said


@pytest.mark.variants(1)
@pytest.mark.parametrize("words", ["verify", "rollout plan", "apply --dry", "doctor"])
def test_ready_machine_is_refused_as_an_inventory(words):
    code, said = live(f"{words} dgx-h100")
    assert code == ExitCode.BAD_INPUT
    assert f"dgx-h100 {NO_HOST}; name an inventory or a host" in said


@pytest.fixture
def fleet(folder: Path) -> Path:
    """A folder as `numaforge capture INVENTORY` leaves it: three nodes of a kind, and another one."""
    place = folder / "fleet"
    place.mkdir()
    for name, kind in (
        ("gpu-01", "dgx-h100"),
        ("gpu-02", "dgx-h100"),
        ("gpu-03", "dgx-h100"),
        ("cpu-1", "epyc-nps4"),
    ):
        document = {**to_document(ready_machine(kind)), "hostname": name}
        (place / f"{name}.snapshot.json").write_text(json.dumps(document))
    return place


def test_identical_machines_share_a_row(fleet, capsys):
    assert run(["plan", "fleet", "--profile", "cpu-only"]) == ExitCode.YES
    rows = [line for line in lines_of(capsys) if len(line) > 5]
    assert [line[0] for line in rows] == ["Node", "cpu-1", "gpu-[01-03]"]


def test_folder_equals_the_list_of_its_files(fleet, capsys):
    said = []
    for words in (["fleet"], sorted(str(path.relative_to(Path.cwd())) for path in fleet.iterdir())):
        assert run(["plan", *words, "--profile", "training"]) == ExitCode.YES
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


def test_unreadable_snapshot_is_named_and_the_others_are_shown(fleet, capsys):
    (fleet / "bad.snapshot.json").write_text("{")
    assert run(["topology", "fleet"]) == ExitCode.NO
    said = capsys.readouterr().out
    assert "gpu-[01-03]" in said
    assert "1 machine left out\n  fleet/bad.snapshot.json: not a complete JSON document" in said


def test_refused_profile_is_reported_per_machine(fleet, capsys):
    (fleet.parent / "own.yaml").write_text("name: own\ncpus: {reserved: {cpulist: '300-301'}}\n")
    assert run(["plan", "fleet", "--profile", "own.yaml", "-o", "json"]) == ExitCode.NO
    answer = json.loads(capsys.readouterr().out)
    assert [plan["hostname"] for plan in answer["plans"]] == []
    assert len(answer["failed"]) == 4


def test_json_of_several_machines_has_one_document_per_machine(fleet, capsys):
    assert run(["topology", "fleet", "-o", "json"]) == ExitCode.YES
    answer = json.loads(capsys.readouterr().out)
    assert [each["hostname"] for each in answer["machines"]] == ["cpu-1", "gpu-01", "gpu-02", "gpu-03"]
    assert answer["failed"] == {}


@cases(
    "broken, code",
    {
        "another reason": (HostError("cannot be reached"), ExitCode.NO),
        "no answer": (HostUnreachableError("is silent"), ExitCode.UNREACHABLE),
    },
)
@pytest.mark.parametrize(
    "words", [["topology"], ["plan", "--profile", "cpu-only"], ["audit", "--only", "host"]]
)
def test_unreachable_exit_code_only_without_another_failure(words, broken, code, monkeypatch, capsys):
    def silent(host: str, data: tuple[str, ...]) -> Snapshot:
        raise broken

    monkeypatch.setattr(machine, "captured", silent)
    assert run([*words, "dgx-h100", "gpu-31"]) == code
    said = capsys.readouterr().out
    assert "dgx-01" in said
    assert f"gpu-31: {broken.message}" in said
    assert run([*words, "gpu-31"]) == broken.exit_code


def test_hosts_with_equal_hostnames_are_shown_by_given_name(capsys):
    assert run(["topology", "dgx-h100", "dgx-h100-mig", "gb200"]) == ExitCode.YES
    assert [line[0] for line in lines_of(capsys)[1:3]] == ["dgx-h100,dgx-h100-mig", "gb200-01"]


@pytest.mark.parametrize("width", [80, 200])
def test_plan_table_truncates_nothing(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["plan", *ready_machines(), "--profile", "cpu-only"]) == ExitCode.YES
    said = capsys.readouterr().out
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= width


# ---- as a person sees them ----


@cases("machine, headers", CASES["field_known_of_no_gpu_has_no_column"])
def test_field_known_of_no_gpu_has_no_column(machine, headers, capsys):
    assert run(["topology", machine]) == ExitCode.YES
    assert headers.split() in lines_of(capsys)


@cases("given, folded", CASES["full_numa_nodes_fold_into_one_line"])
def test_full_numa_nodes_fold_into_one_line(given, folded, folder, capsys):
    Path("small.yaml").write_text(POD)
    run(["fit", "small.yaml", "--machine", *given])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("nothing on ")] == ([folded] if folded else [])


@pytest.mark.parametrize(("width", "lines"), [(80, 4), (200, 2)])
def test_wide_terminal_shows_a_plan_on_one_line(width, lines, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["plan", "dgx-h100", "epyc-nps4", "--profile", "cpu-only"]) == ExitCode.YES
    assert len(lines_of(capsys)[1:]) == lines
