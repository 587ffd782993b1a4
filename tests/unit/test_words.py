"""The words of the documentation: our own stand in the glossary, some stand nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lab.paths import REPOSITORY
from numaforge.cli import numaforge
from numaforge.rollout.record import Ending

GLOSSARY = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", GLOSSARY, re.MULTILINE)
BANNED = re.compile(r"\b(somebody|nobody|anybody|whoever|befall\w*)\b", re.IGNORECASE)


def documents() -> Iterator[Path]:
    yield from REPOSITORY.glob("*.md")
    for folder, pattern in (("docs", "*"), ("templates", "**/*"), ("profiles", "**/*")):
        found = sorted((REPOSITORY / folder).glob(pattern))
        yield from (path for path in found if path.suffix in (".md", ".yaml", ".py", ".j2"))


def sources() -> Iterator[Path]:
    for folder in ("src/numaforge", "roles", "deploys"):
        found = (REPOSITORY / folder).rglob("*")
        yield from sorted(path for path in found if path.suffix in (".py", ".sh"))


def named(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def banned(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if BANNED.search(line)]


def helps(command: click.Command, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the help of a command and of those below it, by its name."""
    name = f"{above} {command.name}".strip()
    with click.Context(command, info_name=name) as context:
        yield name, command.get_help(context)
        if isinstance(command, click.Group):
            for below in command.list_commands(context):
                found = command.get_command(context, below)
                assert found is not None
                yield from helps(found, name)


def forms(word: str) -> str:
    """Return the pattern of a word in the plural or in another tense."""
    return rf"{word[:-1]}(?:y|ies|ied)" if word.endswith("y") else rf"{word}(?:s|es|ed|d)?"


HELPS = dict(helps(numaforge))


@pytest.mark.parametrize("path", list(documents()), ids=named)
def test_a_page_names_who_or_what(path):
    assert banned(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", HELPS)
def test_the_help_of_a_command_names_who_or_what(name):
    assert banned(HELPS[name]) == []


def test_the_source_names_who_or_what():
    found = {named(path): banned(path.read_text(encoding="utf-8")) for path in sources()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("word", [word for word, _ in ROWS])
def test_a_word_of_the_glossary_is_used_on_a_page(word):
    pages = [path for path in documents() if path.suffix == ".md" and path.name != "glossary.md"]
    text = " ".join(path.read_text(encoding="utf-8") for path in pages)
    pattern = r"\s+".join(map(forms, word.split()))
    assert re.search(rf"\b{pattern}\b", text, re.IGNORECASE)


def test_each_word_is_explained_once_and_in_order():
    for section in GLOSSARY.split("\n## ")[1:]:
        words = re.findall(r"^\| \*\*(.+?)\*\*", section, re.MULTILINE)
        assert words == sorted(set(words))
    words = [word for word, _ in ROWS]
    assert len(words) == len(set(words))


def test_every_ending_of_a_node_is_explained():
    words = {word for word, _ in ROWS}
    endings = {str(ending).replace("-", " ").replace("rolled", "roll") for ending in Ending}
    assert endings - words == set()
