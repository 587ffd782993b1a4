"""What the page about admit and fit shows is what the commands print."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from numaforge.commands.admit import admit
from numaforge.commands.fit import fit

PAGE = Path(__file__).parents[3] / "docs" / "admit.md"
BLOCK = re.compile(r"^```\w+ (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> dict[str, str]:
    return dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))


def test_page_shows_what_fleet_shapes_get(tmp_path: Path) -> None:
    page = re.findall(r"^```(yaml|text) shapes\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    shown = dict(page)
    (tmp_path / "shapes.yaml").write_text(shown["yaml"], encoding="utf-8")
    strict = "extends: training\nkubelet: {topology_manager_policy: single-numa-node}\n"
    (tmp_path / "strict.yaml").write_text(strict, encoding="utf-8")
    arguments = ["--shapes", str(tmp_path / "shapes.yaml"), "--profile", str(tmp_path / "strict.yaml")]
    result = CliRunner().invoke(fit, [*arguments, "--machine", "dgx-h100=30"], standalone_mode=False)
    assert result.output.rstrip().splitlines() == shown["text"].rstrip().splitlines()


def test_documentation_page_shows_the_real_claims_output(tmp_path: Path) -> None:
    page = re.findall(r"^```(yaml|text) claims\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    shown = dict(page)
    (tmp_path / "claims.yaml").write_text(shown["yaml"], encoding="utf-8")
    profile = "extends: training\nkubelet: {resource_engine: dra}\ndra: {gpus: claims}\n"
    (tmp_path / "profile.yaml").write_text(profile, encoding="utf-8")
    arguments = [str(tmp_path / "claims.yaml"), "--profile", str(tmp_path / "profile.yaml")]
    result = CliRunner().invoke(admit, [*arguments, "--machine", "dgx-h100"], standalone_mode=False)
    assert result.output.rstrip().splitlines() == shown["text"].rstrip().splitlines()


@pytest.mark.parametrize(("command", "pods"), [(admit, "pods"), (fit, "pod")], ids=["admit", "fit"])
def test_page_shows_the_command_output(command: Any, pods: str, tmp_path: Path) -> None:
    shown = blocks()
    for name, text in {"kubelet.yaml": shown["config"], "pods.yaml": shown[pods]}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    arguments = [str(tmp_path / "pods.yaml"), "--config", str(tmp_path / "kubelet.yaml")]
    result = CliRunner().invoke(command, [*arguments, "--machine", "dgx-h100"], standalone_mode=False)
    printed = [line.rstrip() for line in result.output.rstrip().splitlines()]
    assert printed == shown[command.name].rstrip().splitlines()
