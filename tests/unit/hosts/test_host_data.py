"""What an inventory may say of a host: each datum, what is refused, and what is said of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.host_data import PAGE, page
from numaforge.hosts.host_data import TABLE, mistakes_in

REFUSED = {
    "a number for a profile": ("numaforge_profile", 5, "5 is not accepted; write the name of a ready"),
    "a list for a profile": ("numaforge_profile", ["training"], "['training'] is not accepted"),
    "an empty profile": ("numaforge_profile", {}, "{} is not accepted"),
    "a text for seconds": (
        "kubelet_start_seconds",
        "soon",
        "'soon' is not accepted; write a whole number from 1",
    ),
    "seconds below none": ("kubelet_start_seconds", -5, "-5 is not accepted"),
    "a truth for seconds": ("kubelet_stable_seconds", True, "True is not accepted"),
    "a text for a port": ("ssh_port", "22", "'22' is not accepted; write a whole number from 1 to 65535"),
    "a port that no host has": ("ssh_port", 65536, "65536 is not accepted"),
    "a key that is not there": (
        "ssh_key",
        "/nowhere/key",
        "'/nowhere/key' is not accepted; write the file of",
    ),
    "a number for a key": ("ssh_key", 7, "7 is not accepted"),
    "a word for host keys": ("ssh_strict_host_key_checking", True, "write yes, no, off, ask or accept-new"),
    "a text for settings": ("numaforge_rollout", "10%", "'10%' is not accepted; write a mapping"),
    "an unknown setting": ("numaforge_rollout", {"max_unavailble": 1}, "did you mean max_unavailable?"),
    "a misspelt key": ("numaforge_profle", "training", "is not read; did you mean numaforge_profile?"),
}


@pytest.mark.parametrize(("name", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_a_mistake_names_the_key_the_value_and_what_is_accepted(name, value, message):
    assert message in mistakes_in({name: value, "theirs": object()})[name]


ACCEPTED = {
    "a ready profile": {"numaforge_profile": "training"},
    "a file": {"numaforge_profile": Path("profiles/training.yaml")},
    "a profile in place": {"numaforge_profile": {"extends": "training"}},
    "settings": {"numaforge_rollout": {"max_unavailable": "10%"}},
    "what a run keeps itself": {"numaforge_plan": object(), "numaforge_topology": object()},
    "not said": {datum.name: None for datum in TABLE},
    "data of others": {"role": 5, "kubelet_owner": ["x"]},
}


@pytest.mark.parametrize("data", ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_accepted_is_no_mistake(data):
    assert mistakes_in(data) == {}


@pytest.mark.parametrize("datum", TABLE, ids=lambda datum: datum.name)
def test_what_stands_in_for_a_bad_value_is_of_pyinfras_type(datum):
    from pyinfra.connectors.ssh import ConnectorData

    if datum.name.startswith("ssh_"):
        kind = ConnectorData.__annotations__[datum.name]
        assert type(datum.neutral).__name__ == getattr(
            kind, "__forward_arg__", getattr(kind, "__name__", kind)
        )


def test_the_page_is_what_the_table_says():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run: python -m docs.host_data"
