"""One form of what a host answers: parts by name, an end, and nothing in between that is taken for either."""

import subprocess

import pytest

from numaforge.lib.errors import HostUnreachableError
from numaforge.lib.framing import Answer, asking
from tests.fixtures.answers import answered


def run(shell: list[str], script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*shell, "-s"], input=script, capture_output=True, text=True, timeout=60, check=False
    )


def test_programs_run_in_the_c_locale(shell: list[str], monkeypatch) -> None:
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    assert Answer.of(run(shell, asking("env | grep ^LC_ALL=")).stdout).lines == ("LC_ALL=C",)


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        pytest.param(":", {"": ()}, id="nothing"),
        pytest.param("echo one; echo; echo two", {"": ("one", "", "two")}, id="lines-of-no-part"),
        pytest.param("printf one", {"": ("one",)}, id="a-last-line-without-its-end"),
        pytest.param(r"printf 'one\n\n'", {"": ("one", "")}, id="an-empty-last-line"),
        pytest.param(
            "echo one; tell_part a printf two; tell_part 'b c' false",
            {"": ("one",), "a": ("two",), "b c": ()},
            id="parts",
        ),
        pytest.param("tell_part a echo 1\ntell_part a echo 2", {"": (), "a": ("1", "2")}, id="a-part-twice"),
        pytest.param("cat", {"": ()}, id="no-command-reads-the-rest-of-the-script"),
        pytest.param(
            "echo 'numaforge part a'; echo numaforge packed; tell_part a echo 'numaforge ended 0'",
            {"": ("numaforge part a", "numaforge packed"), "a": ("numaforge ended 0",)},
            id="lines-that-look-like-ours",
        ),
    ],
)
def test_script_output_is_read_part_by_part(shell, script, parts):
    assert Answer.of(run(shell, asking(script)).stdout) == Answer(parts)


def test_consecutive_answers_are_merged(shell):
    both = asking("tell_part a echo 1") + asking("tell_part b echo 2")
    assert Answer.of(run(shell, both).stdout) == Answer({"": (), "a": ("1",), "b": ("2",)})


def test_failed_script_is_reported_and_stops_later_scripts(shell):
    done = run(shell, asking("echo one; exit 7") + asking("echo two"))
    assert (done.returncode, Answer.of(done.stdout)) == (7, Answer({"": ("one",)}, 7))


@pytest.mark.parametrize("cut", ["", "; ", "; echo done", "; echo done\n"], ids=repr)
def test_truncated_script_does_nothing(shell, cut):
    script = asking("echo done; echo done")
    assert "done" not in run(shell, script[: script.index("; echo done")] + cut).stdout


def test_truncated_answer_is_refused_at_every_line():
    whole = answered("one", "", a=["two", ""], b=[])
    assert Answer.of(whole) == Answer({"": ("one", ""), "a": ("two", ""), "b": ()})
    for lines in range(1, len(whole)):
        with pytest.raises(HostUnreachableError, match="cut off"):
            Answer.of(whole[:lines])


@pytest.mark.parametrize("output", [[], ["sudo: a password is required"]], ids=["nothing", "something-else"])
def test_host_that_did_not_run_the_script_is_reported(output):
    with pytest.raises(HostUnreachableError, match="did not run the script"):
        Answer.of(output)


def test_missing_part_counts_as_cut_off():
    with pytest.raises(HostUnreachableError, match="cut off"):
        Answer.of(answered()).part("a")
