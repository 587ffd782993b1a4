"""What the pages tell to run or to read exists: links, make's verbs, scripts, commands."""

import re

import click
import pytest

from lab.paths import REPOSITORY
from numaforge.cli import numaforge

PAGES = {
    str(page.relative_to(REPOSITORY)): page.read_text(encoding="utf-8")
    for page in (*REPOSITORY.glob("*.md"), *sorted((REPOSITORY / "docs").glob("*.md")))
}
MAKEFILES = "".join((REPOSITORY / name).read_text() for name in ("Makefile", "lab/lab.mk"))
VERBS = set(re.findall(r"^([a-z-]+):", MAKEFILES, re.MULTILINE))


def pages() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", PAGES)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages()
def test_every_link_target_exists(name):
    folder = (REPOSITORY / name).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[name]):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (folder / path).resolve() if path else REPOSITORY / name
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), target


@pages()
def test_every_make_target_exists(name):
    assert set(re.findall(r"(?:^ {4}|`)make ([a-z-]+)", PAGES[name], re.MULTILINE)) - VERBS == set()


@pages()
def test_every_script_exists(name):
    scripts = re.findall(r"\bpython ((?:bench|docs)/\w+\.py)", PAGES[name])
    assert [script for script in scripts if not (REPOSITORY / script).exists()] == []


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"CHANGELOG.md"}))  # which names what was removed, too
def test_every_command_exists(name):
    assert_commands_exist(PAGES[name])


@pytest.mark.parametrize("folder", ["src/numaforge", "roles", "deploys", "templates"])
def test_every_command_named_in_messages_or_files_exists(folder):
    for path in sorted((REPOSITORY / folder).rglob("*")):
        if path.suffix in (".py", ".sh", ".j2", ".yaml"):
            assert_commands_exist(path.read_text(encoding="utf-8"))


def assert_commands_exist(text: str) -> None:
    pattern = r"(?:^ {4}|^\$ |`)numaforge ([a-z][a-z-]*)(?: ([a-z][a-z-]*)(?=[ `\n]))?"
    commands = re.findall(pattern, text, re.MULTILINE)
    known = {name: numaforge.get_command(click.Context(numaforge), name) for name in numaforge.names}
    for command, below in commands:
        assert command in known
        if below and isinstance(group := known[command], click.Group):
            assert below in group.list_commands(click.Context(group))


def test_every_benchmark_is_in_the_figures_page():
    scripts = sorted(path.name for path in (REPOSITORY / "bench").glob("*.py"))
    named = re.findall(r"python bench/(\w+\.py)", PAGES["docs/figures.md"])
    assert sorted({*named}) == scripts


def test_first_readme_section_fits_40_lines():
    first, _, _ = PAGES["README.md"].partition("\n## Provision your nodes\n")
    assert first.count("\n") <= 40
    assert "numaforge plan" in first
