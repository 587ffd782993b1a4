"""`numaforge render`: the files of a plan in a folder, or beside those that a root directory has."""

import json
import re
from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from numaforge.commands.render import render
from numaforge.lib.errors import HostError, NumaforgeError, PlanError
from numaforge.lib.resources import template_dir
from numaforge.machine.topology.document import to_document
from numaforge.planning.document import to_document as plan_document
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import dgx_h100
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

SYSCTL = "etc/sysctl.d/90-numaforge.conf"


@pytest.fixture
def machine(tmp_path: Path) -> str:
    file = tmp_path / "gpu-1.json"
    file.write_text(json.dumps(to_document(dgx_h100())))
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(render, arguments, standalone_mode=False, catch_exceptions=False)


def test_each_file_is_printed_with_its_path_mode_and_owner(machine):
    shown = run(machine, "--profile", "cpu-only").stdout
    template = template_dir() / "tuning/sysctl.conf.j2"
    assert f"==> /{SYSCTL}  0644 root:root  from {template}\n# " in shown
    assert shown.startswith("==> /etc/numaforge/plan.json  0600 root:root\n{")


def test_folder_gets_the_same_files_as_json_with_modes(machine, tmp_path):
    folder = tmp_path / "out"
    assert run(machine, "--profile", "training", "--to", str(folder)).return_value == 0
    files = json.loads(run(machine, "--profile", "training", "-o", "json").stdout)["files"]
    assert len(files) > 3
    for file in files:
        written = folder / file["path"].lstrip("/")
        assert written.read_text() == file["text"]
        assert f"{written.stat().st_mode & 0o7777:04o}" == file["mode"]
    assert {*filter(Path.is_file, folder.rglob("*"))} == {folder / file["path"].lstrip("/") for file in files}


def test_non_empty_folder_is_left_unchanged(machine, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("")
    with pytest.raises(NumaforgeError, match="is not empty"):
        run(machine, "--profile", "training", "--to", str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@cases("arguments, said", CASES["invalid_option_combination_is_refused"])
def test_invalid_option_combination_is_refused(machine, arguments, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        run(machine, "--profile", "training", *arguments)


@cases("field, value", CASES["plan_with_invalid_file_entry_writes_nothing"])
def test_plan_with_invalid_file_entry_writes_nothing(field, value, tmp_path):
    document = plan_document(plan_node(dgx_h100(), load_profile("training")))
    document["files"][0][field] = value  # plan.json itself, which no role has to know
    (tmp_path / "plan.json").write_text(json.dumps(document))
    folder = tmp_path / "in/folder"
    answer = CliRunner().invoke(render, [str(tmp_path / "plan.json"), "--to", str(folder)])
    assert isinstance(answer.exception, NumaforgeError)
    assert not folder.exists()


def test_plan_with_unknown_file_is_refused(tmp_path):
    document = plan_document(plan_node(dgx_h100(), load_profile("training")))
    document["files"][-1]["path"] = "/etc/mine.conf"
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(PlanError, match=r"'/etc/mine\.conf' is a file that no role writes by this plan"):
        run(str(tmp_path / "plan.json"))


def test_without_a_plan_nothing_is_rendered(machine):
    with pytest.raises(UsageError, match="no plan: give --profile"):
        run(machine)


# ---- own templates ----

DROP_IN = "kubelet/drop-in.conf.j2"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that NUMAFORGE_TEMPLATES names."""
    folder = tmp_path / "own"
    (folder / "kubelet").mkdir(parents=True)
    monkeypatch.setenv("NUMAFORGE_TEMPLATES", str(folder))
    return folder


def test_custom_template_overrides_the_built_in(machine, own):
    ours = (template_dir() / DROP_IN).read_text()
    (own / DROP_IN).write_text(ours.replace("\n", "\n# ticket 4711\n", 1))
    shown = run(machine, "--profile", "training", "--kubelet-version", "1.36").stdout
    assert f"from {own / DROP_IN}\n" in shown
    assert "# ticket 4711" in shown


@cases(
    "name, text, said",
    {
        "a name of none": ("kubelet/dropin.conf.j2", "", "replaces no template"),
        "a setting": (DROP_IN, "# {{ header }}\nmaxPods: 3\n", "the rendered file has"),
        "no Jinja": (DROP_IN, "# {{ header }}\n{% if %}", "cannot be rendered"),
        "no YAML": (DROP_IN, "# {{ header }}\n: [\n", "the rendered file has"),
        "an unknown name": (DROP_IN, "# {{ headr }}\n", "cannot be rendered"),
        "an unknown field as YAML": (DROP_IN, "# {{ plan.cpu | yaml }}\n", "cannot be rendered"),
        "a division by nothing": (DROP_IN, "# {{ 1 // 0 }}\n", "cannot be rendered"),
    },
)
def test_custom_template_that_breaks_the_plan_is_refused(machine, own, name, text, said):
    (own / name).write_text(text)
    with pytest.raises(PlanError, match=said):
        run(machine, "--profile", "training", "--kubelet-version", "1.36")


def test_missing_template_folder_is_refused(machine, monkeypatch):
    monkeypatch.setenv("NUMAFORGE_TEMPLATES", "/nowhere")
    with pytest.raises(PlanError, match="is not a folder"):
        run(machine, "--profile", "training")


# ---- beside the files of a root directory ----


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root directory of a machine with four CPUs, as a mounted image has it, of this user's files."""
    folder = tmp_path / "root"
    cpus = folder / "sys/devices/system/cpu"
    cpus.mkdir(parents=True)
    for name in ("online", "present", "possible"):
        (cpus / name).write_text("0-3\n")
    for cpu in range(4):
        place = cpus / f"cpu{cpu}/topology"
        place.mkdir(parents=True)
        (place / "core_id").write_text(f"{cpu}\n")
        (place / "physical_package_id").write_text("0\n")
        (place / "thread_siblings_list").write_text(f"{cpu}\n")
    (folder / "proc").mkdir()
    (folder / "proc/meminfo").write_text("MemTotal: 16777216 kB\n")
    (folder / "etc").mkdir()
    return folder


def written(root: Path) -> None:
    """Write what is planned for it."""
    made = root.parent / "made"
    assert run("--root", str(root), "--profile", "cpu-only", "--to", str(made)).return_value == 0
    for file in filter(Path.is_file, made.rglob("*")):
        there = root / file.relative_to(made)
        there.parent.mkdir(parents=True, exist_ok=True)
        file.rename(there)


def compare(root: Path) -> tuple[int, dict[str, str]]:
    done = run("--root", str(root), "--profile", "cpu-only", "--diff", "-o", "json")
    found = json.loads(done.stdout)["differences"]
    return done.return_value, {one["path"]: "\n".join(one["diff"]) for one in found}


def test_files_that_match_the_plan_show_no_difference(root):
    written(root)
    assert compare(root) == (0, {})


def test_changed_line_and_missing_file_are_shown(root):
    written(root)
    file = root / SYSCTL
    file.write_text(file.read_text() + "vm.swappiness = 60\n")
    (root / "etc/numaforge/plan.json").unlink()
    code, found = compare(root)
    assert (code, {*found}) == (1, {f"/{SYSCTL}", "/etc/numaforge/plan.json"})
    assert "\n-vm.swappiness = 60" in found[f"/{SYSCTL}"]
    assert found["/etc/numaforge/plan.json"].startswith("--- /dev/null\n")


def test_changed_file_mode_is_a_difference(root):
    written(root)
    (root / SYSCTL).chmod(0o600)
    assert compare(root) == (1, {f"/{SYSCTL}": f"/{SYSCTL}: mode 0600 root:root -> mode 0644 root:root"})


@pytest.mark.parametrize("target", ["/elsewhere", "../elsewhere", "../../../../elsewhere"])
def test_link_is_resolved_inside_the_root_directory(root, target):
    written(root)
    (root / "etc/sysctl.d").rename(root / "elsewhere")
    (root / "etc/sysctl.d").symlink_to(target)
    assert compare(root) == (0, {})


def test_a_link_to_itself_is_refused(root):
    (root / "etc/sysctl.d").symlink_to("sysctl.d")
    with pytest.raises(HostError, match="is a loop of links"):
        compare(root)


def test_owner_names_come_from_the_root_directory(root):
    from numaforge.commands.render import _names_by_number

    (root / "etc/passwd").write_text("toor:x:0:0::/:/bin/sh\nlocal:x:4711:4711::/:/bin/sh\nodd line\n")
    assert _names_by_number(str(root / "etc/passwd")) == {0: "toor", 4711: "local"}


def test_system_settings_are_written_once_per_machine_kind(machine, tmp_path):
    folder = tmp_path / "out"
    asked = (machine, "hgx-a100", "--profile", "training", "--for", "talos")
    result = run(*asked, "--to", str(folder))
    assert result.return_value == 0
    assert sorted(path.name for path in folder.iterdir()) == ["dgx-01.yaml", "hgx-a100-01.yaml"]
    assert "wrote dgx-01.yaml for 1 machine: 0 parts of the plan not expressed" in result.stderr
    document = json.loads(run(*asked, "-o", "json").stdout)
    assert [kind["machines"] for kind in document["kinds"]] == [["dgx-01"], ["hgx-a100-01"]]
    first = document["kinds"][0]["files"][0]
    assert first["text"] == (folder / first["name"]).read_text()


def test_unplannable_machine_is_left_out_of_system_settings(machine):
    result = run(machine, "dgx-h100-mig", "--profile", "inference-mig", "--for", "bottlerocket", "-o", "json")
    assert result.return_value == 1
    assert "dgx-h100-mig: " in result.stderr
    (kind,) = json.loads(result.stdout)["kinds"]
    assert kind["machines"] == ["dgx-01"]
    assert {"key", "why"} == kind["left_out"][0].keys()
