"""Lines that are too long for a terminal go on, indented, on its next line; a pipe gets them whole."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import nullcontext
from pathlib import Path

import click
import pytest

from numaforge.report.terminal import folded, style

DIM = style("  source: a b", dim=True)


@pytest.mark.parametrize(
    ("line", "width", "expected"),
    [
        pytest.param("  one two", 9, ["  one two"], id="what fits stays as it is"),
        pytest.param("  one two", 8, ["  one", "    two"], id="the next line is indented by two more"),
        pytest.param("-> a b c d", 6, ["-> a b", "  c d"], id="as much as fits stands on each line"),
        pytest.param("/a/long/path b", 6, ["/a/long/path", "  b"], id="a path is never cut"),
        pytest.param("id  a b c", 7, ["id  a b", "  c"], id="two blanks stay two"),
        pytest.param("name  yes", 8, ["name", "  yes"], id="or become a new line"),
        pytest.param(DIM, 13, [DIM], id="a style takes no room"),
        pytest.param(
            DIM, 12, ["\x1b[2m  source: a", "    b\x1b[0m"], id="a style goes on over the end of a line"
        ),
        pytest.param("", 1, [""], id="an empty line stays one"),
        pytest.param("see `a b c` d", 6, ["see", "  `a b c`", "  d"], id="a command is never cut"),
    ],
)
def test_long_line_is_folded_on_a_terminal(line: str, width: int, expected: list[str]) -> None:
    assert folded(line, width) == expected


NUMAFORGE = (sys.executable, "-m", "numaforge")


def on_a_terminal(columns: int, *words: str, answer: Path | None = None) -> str:
    """Return what a command prints on a terminal, its errors with the rest; the `answer` may go to a file."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    said = b""
    # COLUMNS is readline's, which sets it behind Python's back; workers of xdist inherit it.
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with answer.open("w") if answer else nullcontext(theirs) as out:
        started = subprocess.Popen(
            (*NUMAFORGE, *words), stdin=theirs, stdout=out, stderr=theirs, env=environment
        )
    with started:
        os.close(theirs)
        try:
            while more := os.read(ours, 4096):
                said += more
        except OSError:  # the last of those that have it open has closed it
            pass
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


POD = "metadata: {name: one}\nspec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 3}}}]}\n"
ANSWERS = {
    "findings": "audit --only gpudirect dgx-h100-acs",
    "what a pod gets": "admit pod.yaml --machine dgx-h100 --profile training",
}


PLAN = "plan dgx-h100 --profile training"


@pytest.mark.parametrize(
    ("words", "in_a_file"),
    [
        pytest.param(f"{PLAN}.yml", False, id="an error"),
        pytest.param("topology dgx-h100 --no-such-option --to", False, id="one of the command line"),
        pytest.param("render dgx-h100 --to - -q --verbose", False, id="two options that exclude each other"),
        pytest.param(f"{PLAN}.yml", True, id="an error where the answer goes to a file"),
    ],
)
def test_errors_fit_the_terminal_and_are_whole_in_a_pipe(
    words: str, in_a_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = subprocess.run((*NUMAFORGE, *words.split()), capture_output=True, text=True, check=False).stderr
    shown = on_a_terminal(30, *words.split(), answer=tmp_path / "answer" if in_a_file else None)
    assert any(len(line) > 30 for line in whole.splitlines())
    assert not [line for line in shown.splitlines() if len(line) > 30 and " " in line.strip()]
    assert shown.split() == whole.split()


@pytest.mark.parametrize("words", ANSWERS.values(), ids=ANSWERS)
def test_sentences_fit_80_columns_and_are_whole_in_a_pipe(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    monkeypatch.chdir(tmp_path)
    whole = subprocess.run((*NUMAFORGE, *words.split()), capture_output=True, text=True, check=False).stdout
    shown = click.unstyle(on_a_terminal(80, *words.split()))
    assert any(len(line) > 80 for line in whole.splitlines())
    assert not [line for line in shown.splitlines() if len(line) > 80 and " " in line.strip()]
    assert shown.split() == whole.split()


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "words", ["capture @local --to snapshot.json", "measure --last @local", "topology @local"]
)
def test_progress_line_ends_without_an_exception(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = on_a_terminal(80, *words.split())
    assert "asking @local" in shown
    assert "Exception" not in shown


def test_terminal_of_width_zero_counts_as_80_columns() -> None:
    words = ANSWERS["findings"].split()
    assert on_a_terminal(0, *words) == on_a_terminal(80, *words)


def test_capture_on_a_terminal_writes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "node-1/proc").mkdir(parents=True)
    (tmp_path / "node-1/proc/cmdline").write_text("quiet\n")
    monkeypatch.chdir(tmp_path)
    assert "wrote node-1.snapshot.json\n" in on_a_terminal(80, "capture", "--root", "node-1")
    assert (tmp_path / "node-1.snapshot.json").read_text().startswith("{")
