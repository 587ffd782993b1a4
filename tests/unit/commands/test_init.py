"""`numaforge init`: all of the folder or nothing, and what it writes is what the other programs accept."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.commands.init import starting_files, write_folder
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.planning.profiles import load_profile, machine_profiles, ready_profiles
from numaforge.rollout.options import read_options
from tests.fixtures.tables import cases


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_init_writes_inventory_data_profile_deploys_and_next_commands(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path / "fleet")]) == ExitCode.YES
    assert {*contents(tmp_path / "fleet")} == {
        "README.md",
        "config.py",
        "inventory.py",
        "group_data/all.py",
        "profiles/nodes.yaml",
        *(
            f"deploys/{name}.py"
            for name in (
                "amd_partitions",
                "bake",
                "detect",
                "kubelet",
                "mig",
                "rdma",
                "site",
                "tune",
                "uninstall",
            )
        ),
    }


def test_inventory_has_the_given_hosts_and_user(tmp_path: Path) -> None:
    hosts = ["gpu-1", "gpu-2", "gpu-1"]
    run(["init", str(tmp_path / "fleet"), *(f"--host={name}" for name in hosts), "--user=o'ps"])
    assert runpy.run_path(str(tmp_path / "fleet/inventory.py"))["nodes"] == ["gpu-1", "gpu-2"]
    assert runpy.run_path(str(tmp_path / "fleet/group_data/all.py"))["ssh_user"] == "o'ps"


def test_host_range_is_expanded_and_keeps_user_and_port_per_host(tmp_path: Path) -> None:
    hosts = ("gpu-[01-03,08]", "ubuntu@gpu-9:2222", "gpu-02", "[fe80::1]:23", "@docker/one")
    write_folder(tmp_path / "fleet", starting_files(hosts, "root", "training"))
    assert runpy.run_path(str(tmp_path / "fleet/inventory.py"))["nodes"] == [
        *("gpu-01", "gpu-02", "gpu-03", "gpu-08"),
        ("gpu-9", {"ssh_user": "ubuntu", "ssh_port": 2222}),
        ("fe80::1", {"ssh_port": 23}),
        "@docker/one",
    ]


@pytest.mark.parametrize("host", ["gpu-[5-1]", "gpu-[0-10000]", "a b@gpu-1", "gpu-1:0", "gpu-[1-2"])
def test_invalid_host_range_or_address_is_refused(host: str) -> None:
    with pytest.raises(NumaforgeError, match="--host"):
        starting_files((host,), "root", "training")


def test_quiet_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "fleet"), "-q"]) == ExitCode.YES
    assert capsys.readouterr() == ("", "")


def test_inventory_without_hosts_is_empty_and_shows_an_example() -> None:
    texts = starting_files((), "root", "training")
    assert re.search(r"nodes = \[\n    # \"[\w.-]+\",\n\]", texts["inventory.py"])
    assert "First name your hosts" in texts["README.md"]


@pytest.mark.parametrize("profile", [*ready_profiles(), *machine_profiles()])
def test_every_ready_profile_can_be_a_starting_point(tmp_path: Path, profile: str) -> None:
    write_folder(tmp_path / "fleet", starting_files(("gpu-1",), "root", profile))
    started = load_profile(tmp_path / "fleet/profiles/nodes.yaml")
    assert started.model_dump(exclude={"name"}) == load_profile(profile).model_dump(exclude={"name"})


def test_settings_in_profile_comments_are_valid_too() -> None:
    text = starting_files((), "root", "training")["profiles/nodes.yaml"]
    mentioned = re.sub(r"^#(?=(  +(- )?)?[\w.]+:)", "", text, flags=re.MULTILINE)
    assert load_profile(yaml.safe_load(mentioned)).hugepages
    assert {*yaml.safe_load(mentioned)} - {*yaml.safe_load(text)}


def test_commented_out_rollout_options_are_valid(tmp_path: Path) -> None:
    text = starting_files((), "root", "training")["group_data/all.py"]
    data = tmp_path / "all.py"
    data.write_text(text.replace('    # "', '    "'))
    rollout = runpy.run_path(str(data))["numaforge_rollout"]
    assert rollout
    assert read_options(rollout)


def test_pyinfra_config_equals_that_of_the_repository() -> None:
    assert starting_files((), "root", "training")["config.py"] == (REPOSITORY / "config.py").read_text()


def test_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    assert run(["init", str(tmp_path / "fleet")]) == ExitCode.YES


@cases(
    "prepare, message",
    {
        "a-folder-with-files": (
            lambda folder: (
                folder.mkdir(),
                (folder / "inventory.py").write_text("mine"),
                (folder / ".git").mkdir(),
            ),
            "the folder is not empty: .git, inventory.py",
        ),
        "a-file": (lambda folder: folder.write_text("mine"), "is a file"),
    },
)
def test_existing_files_are_named_and_left_unchanged(tmp_path: Path, capfd, prepare, message: str) -> None:
    prepare(tmp_path / "fleet")
    before = contents(tmp_path)
    assert run(["init", str(tmp_path / "fleet")]) == ExitCode.BAD_INPUT
    assert f"{tmp_path / 'fleet'}: {message}\n" in capfd.readouterr().err
    assert contents(tmp_path) == before


def test_long_list_of_existing_files_is_shortened(tmp_path: Path, capfd) -> None:
    for number in range(20):
        (tmp_path / f"file-{number:02}").touch()
    run(["init", str(tmp_path)])
    assert "file-07 and 12 more\n" in capfd.readouterr().err


def test_current_folder_is_not_replaced(tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "."]) == ExitCode.BAD_INPUT
    assert ".: is the folder that you are in\n" in capfd.readouterr().err


def test_init_writes_all_files_or_none(tmp_path: Path) -> None:
    texts = {"a.py": "", "a.py/b.py": ""}  # the second cannot be written
    with pytest.raises(NumaforgeError, match="fleet: cannot be written"):
        write_folder(tmp_path / "fleet", texts)
    assert list(tmp_path.iterdir()) == []


@cases(
    "option, message",
    {
        "profile": ("--profile=trainin", "there is no ready profile 'trainin'"),
        "profile-file": ("--profile=profiles/training.yaml", "there is no ready profile"),
        "several-hosts-in-one": ("--host=gpu-1,gpu-2", "is not a host name"),
        "no-host": ("--host=", "'--host=' is empty"),
    },
)
def test_a_bad_option_is_refused_before_anything_is_written(tmp_path, capfd, option, message) -> None:
    assert run(["init", str(tmp_path / "fleet"), option]) == ExitCode.BAD_INPUT
    assert message in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
