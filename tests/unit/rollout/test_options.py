"""How nodes are rolled out: what may be said, and what a mistake is told."""

import pytest

from numaforge.lib.errors import NumaforgeError
from numaforge.rollout.budget import Share
from numaforge.rollout.fleet import FleetSettings
from numaforge.rollout.options import RolloutOptions, read_options
from tests.fixtures.tables import cases


@pytest.mark.parametrize("name", RolloutOptions.model_fields)
def test_an_example_is_accepted(name):
    for example in RolloutOptions.model_fields[name].examples or ():
        assert read_options({name: example})


def test_command_line_overrides_inventory_per_key():
    options = read_options({"max_unavailable": 3, "canaries": 2}, {"max_unavailable": "10%"})
    assert (options.budget().max_unavailable, FleetSettings.of(options).canaries) == (Share(percent=10), 2)


@cases(
    "said, message",
    {
        "a-budget-of-nothing": ({"max_unavailable": 0}, "'0' is not a budget"),
        "a-share-of-nothing": ({"max_unavailable": "0%"}, "'0%' is not a budget"),
        "more-than-everything": ({"max_unavailable": "120%"}, "'120%' is not a budget"),
        "a-misspelt-key": ({"max_unavailble": 1}, "did you mean max_unavailable?"),
        "fewer-canaries-than-none": ({"canaries": -1}, "write 0 or more"),
        "no-reason-for-no-drain": ({"without_drain": "yes"}, "give the reason in one sentence"),
    },
)
def test_invalid_option_is_refused_with_the_key_and_accepted_values(said, message):
    with pytest.raises(NumaforgeError, match="numaforge_rollout: ") as refused:
        read_options(said)
    assert message in str(refused.value)
    assert next(iter(said)) in str(refused.value)


def test_text_instead_of_mapping_is_refused():
    with pytest.raises(NumaforgeError, match="is not a mapping"):
        read_options("10%")
