"""What is generated into a page replaces what is between two comments, and nothing else."""

from __future__ import annotations

import pytest

from docs.generated import renewed

PAGE = "above\n<!-- begin a -->\nold\n<!-- end a -->\nbetween\n<!-- begin b -->\n<!-- end b -->\nbelow\n"


@pytest.mark.parametrize("content", ["new", "new\n"])
def test_only_what_is_between_the_comments_of_the_name_is_replaced(content):
    assert renewed(PAGE, "a", content) == PAGE.replace("old", "new")


def test_a_backslash_stays_one():
    assert renewed(PAGE, "a", r"\1") == PAGE.replace("old", r"\1")


@pytest.mark.parametrize(
    "text",
    ["", "<!-- begin a -->\n", "<!-- end a -->\n<!-- begin a -->\n", PAGE + PAGE],
    ids=["without them", "without the end", "the wrong way round", "twice"],
)
def test_a_page_without_its_comments_is_refused(text):
    with pytest.raises(ValueError, match="does not have <!-- begin a --> and <!-- end a --> once"):
        renewed(text, "a", "new")
