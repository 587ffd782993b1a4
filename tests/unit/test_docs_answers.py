"""Pages that show real answers: each command is run beside the files of its page, and its output compared."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.roles.device_plugin import labels
from numaforge.roles.mig.models import models
from numaforge.roles.rdma.manifests import POOLS_LABEL

DOCS = REPOSITORY / "docs"
PAGES = {
    name: (DOCS / name).read_text(encoding="utf-8")
    for name in (
        "convert.md",
        "device-plugin.md",
        "gpus.md",
        "mig.md",
        "rdma-device-plugin.md",
        "rdma-libraries.md",
    )
}
JSON_FILES: Mapping[str, Sequence[str]] = {"rdma-device-plugin.md": ("hyphen.json", "typo.json")}
"""How the commands of a page call its blocks of JSON; those of YAML say their names themselves."""


def examples() -> Iterator[object]:
    for page, text in PAGES.items():
        for command, expected in re.findall(
            r"^```console\n\$ numaforge ([^\n]+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
        ):
            yield pytest.param(page, command, expected, id=f"{page}: {command}")


def files(page: str) -> dict[str, str]:
    """Return the files that a page shows, by name."""
    blocks = re.findall(r"^```yaml(?: |\n# )(\S+)\n(.*?)^```$", PAGES[page], re.DOTALL | re.MULTILINE)
    configs = re.findall(r"^```json\n(.*?)^```$", PAGES[page], re.DOTALL | re.MULTILINE)
    named = JSON_FILES.get(page, ())
    return {**dict(blocks), **(dict(zip(named, configs, strict=True)) if named else {})}


@pytest.mark.parametrize(("page", "command", "expected"), list(examples()))
def test_the_page_shows_the_real_answer(
    page: str,
    command: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in files(page).items():
        (tmp_path / name).write_text(text)
    for word in command.split():
        if (DOCS / word).is_file():
            shutil.copy(DOCS / word, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    run(command.split())
    said = capsys.readouterr()
    answer = "".join(f"{line.rstrip()}\n" for line in f"{said.out}{said.err}".splitlines())
    shown = re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)  # a line of dots stands for what is left out
    if len(shown) == 1:
        assert answer == expected
    assert [part for part in shown if part not in answer] == []


def findings(role: str, module: str) -> list[str]:
    """Return the ids of a plugin's findings, as its checks have them."""
    text = (REPOSITORY / "roles" / role / module).read_text()
    return sorted(set(re.findall(r'^ +"([a-z]+(?:-[a-z]+)+)",$', text, re.MULTILINE)))


@pytest.mark.parametrize(
    ("page", "names", "at_least"),
    [
        pytest.param("mig.md", [model.key for model in models()], 8, id="every-model-that-is-cut"),
        pytest.param(
            "device-plugin.md",
            findings("device_plugin", "checks.py"),
            10,
            id="every-finding-on-the-device-plugin",
        ),
        pytest.param(
            "device-plugin.md",
            [value for name, value in vars(labels).items() if name.endswith("_LABEL")],
            2,
            id="every-label-of-the-device-plugin",
        ),
        pytest.param(
            "rdma-device-plugin.md",
            findings("rdma", "plugin_checks.py"),
            12,
            id="every-finding-on-the-shared-RDMA-device-plugin",
        ),
        pytest.param("rdma-device-plugin.md", [POOLS_LABEL], 1, id="the-label-of-pools"),
    ],
)
def test_the_page_names(page: str, names: Sequence[str], at_least: int) -> None:
    assert len(names) >= at_least
    assert [name for name in names if f"`{name}`" not in PAGES[page]] == []
