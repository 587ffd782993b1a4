"""What the commands of `python -m lab` make of their arguments."""

from __future__ import annotations

import pytest

from lab.__main__ import main


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("kubectl exec pod -- sh -c id", id="what ends kubectl's own options"),
        pytest.param("kubectl -n team exec -it pod -- env -- --all", id="behind options, and a second one"),
        pytest.param("kubectl -- version --help", id="at the beginning"),
        pytest.param("ssh node -- lscpu", id="ssh's, too"),
        pytest.param("ssh -v", id="an option of ssh's"),
        pytest.param("driver cpu --group-by=socket -- x", id="and a driver's"),
    ],
)
def test_arguments_of_other_programs_are_handed_on_as_they_are(given: str) -> None:
    name, *arguments = given.split()
    command = main.commands[name]
    seen = command.make_context(name, list(arguments)).params
    assert [*([seen["name"]] if "name" in seen else []), *seen["arguments"]] == arguments
