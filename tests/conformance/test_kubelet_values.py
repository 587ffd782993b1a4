"""What Go's own code made of texts, as recorded: quantities, durations, CPU lists, numbers, YAML."""

import json
from typing import Any

import pytest

from tests.conformance.record_kubelet_values import FILE
from tests.oracle.readers import gos, same, value

RECORDED: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
READERS = tuple(dict.fromkeys(each["reader"] for each in RECORDED))


@pytest.mark.parametrize("reader", READERS)
def test_texts_are_read_as_by_the_kubelet(reader: str) -> None:
    cases = [each for each in RECORDED if each["reader"] == reader]
    assert len(cases) >= 40 or reader == "boolean"
    differ = [
        (each["text"], gos(reader, each), value(reader, each["text"]))
        for each in cases
        if not _agree(reader, each)
    ]
    assert differ == []


def _agree(reader: str, case: dict[str, Any]) -> bool:
    """Say whether we make the same of a text; YAML may be refused in other words."""
    answer, ours = gos(reader, case), value(reader, case["text"])
    return same(answer, ours) or ("yaml" in reader and bool(answer[1] and ours[1]))
