"""Files are written where --to says, with their folders; -o is the format."""

from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from tests.fixtures.tables import cases


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@cases(
    "command",
    {
        "draw": "draw small-vm --to a/b/out.svg",
        "topology-xml": "rdma topology-xml dgx-h100 --to a/b/out.svg",
        "convert": "convert kubelet.yaml --to a/b/out.svg",
        "capture": "capture --root . --to a/b/out.svg",
    },
)
def test_parent_folders_of_a_file_are_created(command: str, folder: Path) -> None:
    (folder / "kubelet.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
    )
    (folder / "proc").mkdir()
    (folder / "proc/meminfo").write_text("MemTotal: 1024 kB\n")
    assert run(command.split()) == ExitCode.YES
    assert (folder / "a/b/out.svg").stat().st_size


def test_output_option_selects_the_picture_format(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["draw", "small-vm", "-o", "svg"]) == ExitCode.YES
    printed = capsys.readouterr().out
    assert printed.startswith("<?xml")
    assert run(["draw", "small-vm", "-o", "svg", "--to", "picture"]) == ExitCode.YES
    assert (folder / "picture").read_text() == printed
