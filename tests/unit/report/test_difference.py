"""Documents are compared by what their entries stand for, and what is a host's own says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.report.difference import Unlike, differences

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


DIFFERENCES = {
    "a value is named by its path": ({"a": {"b": 1}}, {"a": {"b": 2}}, [("a.b", 1, 2)]),
    "what one side lacks is None there": ({"a": 1}, {}, [("a", 1, None)]),
    "entries are compared by their key, not by their place": (
        {"gpus": [{"pci_address": "x", "n": 1}, {"pci_address": "y", "n": 1}]},
        {"gpus": [{"pci_address": "y", "n": 1}, {"pci_address": "x", "n": 2}]},
        [("gpus[x].n", 1, 2)],
    ),
    "an entry that one side alone has": (
        {"nodes": [{"id": 0}, {"id": 1}]},
        {"nodes": [{"id": 1}]},
        [("nodes[0]", {"id": 0}, None)],
    ),
    "lists of values are whole": ({"a": [1, 2]}, {"a": [1, 3]}, [("a", [1, 2], [1, 3])]),
    "by their place where a key is there twice": (
        {"a": [{"id": 1, "n": 1}, {"id": 1, "n": 2}]},
        {"a": [{"id": 1, "n": 1}, {"id": 1, "n": 3}]},
        [("a[1].n", 2, 3)],
    ),
    "a host's own name is left out": ({"hostname": "a"}, {"hostname": "b"}, []),
}


@pytest.mark.parametrize(("left", "right", "expected"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_differences_are_listed_by_path(left, right, expected):
    assert differences(left, right) == [Unlike(*one) for one in expected]


def test_host_specific_names_are_shown_on_request():
    assert differences({"hostname": "a"}, {"hostname": "b"}, names_of_host=True) == [
        Unlike("hostname", "a", "b")
    ]


@given(DOCUMENTS, DOCUMENTS)
def test_equal_documents_have_no_difference(left, right):
    assert (differences(left, right) == []) is (left == right)


@given(DOCUMENTS, DOCUMENTS)
def test_comparison_is_symmetric(left, right):
    turned = {(one.path, repr(one.right), repr(one.left)) for one in differences(right, left)}
    assert {(one.path, repr(one.left), repr(one.right)) for one in differences(left, right)} == turned
