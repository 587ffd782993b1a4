"""docs/gpus.md explains every line, and names every field of a GPU that it speaks of."""

import re
from dataclasses import fields

from lab.paths import REPOSITORY
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.report.gpus import NOTES

PAGE = (REPOSITORY / "docs" / "gpus.md").read_text(encoding="utf-8")


def test_page_explains_every_kind_of_line():
    assert re.findall(r"^\| ([A-Z][\w ]+) \| ", PAGE, re.MULTILINE) == list(NOTES)


def test_page_names_only_existing_fields():
    known = {each.name for model in (Gpu, NodeTopology) for each in fields(model)}
    (table,) = re.findall(r"^\| field of a GPU .*?\n\n(.*?)\n", PAGE, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)} | set(
        re.findall(r"`(\w+)` \(", table)
    )
    assert named - known == set()
    assert len(named) > 20
