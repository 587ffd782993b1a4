"""What the page about admit and fit shows is what the commands print."""

import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from numaforge.commands.admit import admit
from numaforge.commands.fit import fit
from tests.fixtures.tables import cases

PAGE = (Path(__file__).parents[3] / "docs" / "admit.md").read_text(encoding="utf-8")
BLOCKS = {
    (kind, name): text for kind, name, text in re.findall(r"^```(\w+) (\w+)\n(.*?)^```$", PAGE, re.M | re.S)
}
STRICT = "extends: training\nkubelet: {topology_manager_policy: single-numa-node}\n"
BY_CLAIMS = "extends: training\nkubelet: {resource_engine: dra}\ndra: {gpus: claims}\n"


@cases(
    "command, answer, pods, profile, machine",
    {
        "pods": (admit, "admit", "pods", "", "dgx-h100"),
        "one pod": (fit, "fit", "pod", "", "dgx-h100"),
        "pods with claims": (admit, "claims", "claims", BY_CLAIMS, "dgx-h100"),
        "shapes of a fleet": (fit, "shapes", "shapes", STRICT, "dgx-h100=30"),
    },
)
def test_page_shows_the_command_output(
    command: Any, answer: str, pods: str, profile: str, machine: str, tmp_path: Path
) -> None:
    (tmp_path / "pods.yaml").write_text(BLOCKS["yaml", pods], encoding="utf-8")
    (tmp_path / "node.yaml").write_text(profile or BLOCKS["yaml", "config"], encoding="utf-8")
    given = ["--shapes"] if pods == "shapes" else []
    how = ["--profile" if profile else "--config", str(tmp_path / "node.yaml")]
    arguments = [*given, str(tmp_path / "pods.yaml"), *how, "--machine", machine]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    printed = [line.rstrip() for line in result.output.rstrip().splitlines()]
    assert printed == BLOCKS["text", answer].rstrip().splitlines()
