"""The pictures in the documentation are what `numaforge draw` draws now."""

from __future__ import annotations

import pytest

from docs.picture_examples import IMAGES, examples


@pytest.mark.parametrize("name", examples())
def test_the_picture_in_the_documentation_is_current(name):
    assert (IMAGES / name).read_text() == examples()[name], "run: python docs/picture_examples.py"


def test_no_picture_is_left_over():
    assert {path.name for path in IMAGES.glob("*.svg")} == set(examples())
