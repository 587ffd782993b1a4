"""The rooms of the kubelet's rules import one way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import numaforge.kubelet

ROOMS = ("values", "minors", "config", "admission", "startup")
PACKAGE = Path(str(numaforge.kubelet.__file__)).parent


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_those_before_it(room):
    texts = [module.read_text(encoding="utf-8") for module in (PACKAGE / room).glob("*.py")]
    imported = {name for text in texts for name in re.findall(r"numaforge\.kubelet\.(\w+)", text)}
    assert imported.isdisjoint(ROOMS[ROOMS.index(room) + 1 :])
