"""What the page about admit and fit shows is what the commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from numaforge.commands.admit import admit
from numaforge.commands.fit import fit
from numaforge.topology.document import to_document
from tests.fixtures.machines import dgx_h100

PAGE = Path(__file__).parents[3] / "docs" / "admit.md"
BLOCK = re.compile(r"^```\w+ (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> dict[str, str]:
    return dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("command", "pods"), [(admit, "pods"), (fit, "pod")], ids=["admit", "fit"])
def test_the_page_shows_what_the_command_prints(command: Any, pods: str, tmp_path: Path) -> None:
    shown = blocks()
    files = {"node.json": json.dumps(to_document(dgx_h100())), "kubelet.yaml": shown["config"]}
    files |= {"pods.yaml": shown[pods], "devices.yaml": "nvidia.com/gpu: [0, 0, 0, 0, 1, 1, 1, 1]"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    path = {name: str(tmp_path / name) for name in files}
    arguments = [path["pods.yaml"], "--topology", path["node.json"], "--config", path["kubelet.yaml"]]
    result = CliRunner().invoke(
        command, [*arguments, "--devices", path["devices.yaml"]], standalone_mode=False
    )
    printed = [line.rstrip() for line in result.output.rstrip().splitlines()]
    assert printed == shown[command.name].rstrip().splitlines()
