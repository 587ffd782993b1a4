"""The diagrams of the documentation follow the code that they show."""

from __future__ import annotations

import re

import pytest

from docs.diagrams import Block, Row, diagrams, node_phases, rows, transaction, transitions
from numaforge.maintenance.parts import PARTS
from numaforge.rollout.record import Ending, Phase


def test_every_phase_and_every_ending_of_a_node_is_drawn():
    picture = node_phases()
    assert [phase for phase in Phase if f">{phase}<" not in picture] == []
    reached = {ending for steps in transitions().values() for ending in steps.endings}
    assert set(Ending) - reached == {Ending.UNCHANGED}  # a node that needs nothing is not cordoned


@pytest.mark.parametrize(
    ("phase", "following"),
    [
        pytest.param(Phase.CLAIMED, {Phase.CORDONED}, id="claimed-in-the-match-itself"),
        pytest.param(Phase.DRAINED, {Phase.APPLYING, Phase.APPLIED}, id="drained-by-its-own-method"),
        pytest.param(
            Phase.APPLYING, {Phase.CORDONED, Phase.APPLIED, Phase.HELD}, id="held-by-another-method"
        ),
        pytest.param(Phase.VERIFIED, set(), id="verified-ends"),
    ],
)
def test_transitions_are_those_of_the_code(phase, following):
    assert set(transitions()[phase].phases) == following


def test_the_steps_are_those_of_the_transaction_in_their_order():
    assert rows("keep_all", "change") == [Row("keep", True), Row("stop new", False), Row("apply", True)]
    assert [row.verb for row in rows("undo")] == ["stop old", "undo", "start old", "prove old"]


def test_every_part_is_drawn_in_its_order():
    picture = transaction()
    places = [picture.index(f">{part.name}<") for part in PARTS]
    assert places == sorted(places)


@pytest.mark.parametrize("name", diagrams())
def test_a_diagram_is_legible_at_the_width_of_a_page(name):
    picture = diagrams()[name]
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', picture)[1])
    sizes = map(float, re.findall(r'font-size(?:="|: )([\d.]+)', picture))
    assert min(sizes) * min(1, 900 / width) >= 9


def test_a_text_that_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="does not fit"):
        list(Block("plain", 0, 0, 60, 40, "a text that is far too long").svg())
