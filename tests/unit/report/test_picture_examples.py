"""The pictures in the documentation are what the code draws now, and each is shown."""

import pytest

from docs.picture_examples import IMAGES, REPOSITORY, examples

EXAMPLES = examples()
PAGES = "".join(page.read_text() for page in (REPOSITORY / "README.md", *IMAGES.parent.glob("*.md")))


@pytest.mark.parametrize("name", EXAMPLES)
def test_documentation_picture_is_current(name):
    assert (IMAGES / name).read_text() == EXAMPLES[name], "run: python -m docs.picture_examples"


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_picture_is_used_on_a_page(name):
    assert f"images/{name})" in PAGES


def test_every_stored_picture_has_an_example():
    assert {path.name for path in IMAGES.glob("*.svg")} == set(EXAMPLES)
