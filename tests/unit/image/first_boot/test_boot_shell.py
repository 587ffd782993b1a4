"""boot.sh, under each shell: which memory counts as unchanged, and with which plan the kubelet may start."""

import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from numaforge.lib import shell as scripts

WAS, TRIED = 8 << 20, 4 << 20
MIB = 1 << 10


def run(shell: list[str], script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {"STATE": str(folder), "RUN": str(folder), "TRANSACTIONS": str(folder / "txn")}
    text = scripts.assignments(variables) + scripts.library("image/first_boot/boot") + script
    return subprocess.run([*shell, "-s"], input=text, capture_output=True, text=True, check=False)


MEMORY = {
    "as it was": (WAS, WAS),
    "moved by 60 MiB": (WAS - 60 * MIB, WAS),
    "moved by a 64th": (WAS + WAS // 64, WAS),
    "less": (WAS // 2 - 600 * MIB, WAS // 2 - 600 * MIB),
    "as at the plan that was tried": (TRIED, TRIED),
    "moved by 60 MiB since the plan that was tried": (TRIED + 60 * MIB, TRIED),
}


@pytest.mark.parametrize(("now", "counted"), MEMORY.values(), ids=MEMORY)
def test_small_memory_change_counts_as_none(now, counted, shell, tmp_path):
    kept = f"kept='kernel 6.1.0\nmemory {WAS} kB' tried='memory {TRIED} kB'\n"
    assert run(shell, f"{kept}tell_memory memory {now}\n", tmp_path).stdout == f"memory {counted} kB\n"


def written(folder: Path, text: str) -> None:
    """Record a plan whose inputs are the present ones, and whose file of the kubelet has this text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "inputs").write_text("kernel 6.1.0\n")
    (folder / "files").write_text(f"{sha256(text.encode()).hexdigest()}  {folder.parent / 'drop-in'}\n")


def on_trial(folder: Path, state: str, *, drop_in: str = "new", restarts: str = "") -> None:
    written(folder / "trial", "new")
    (folder / "drop-in").write_text(drop_in)
    transaction = folder / "txn/T1"
    transaction.mkdir(parents=True)
    (folder / "txn/current").symlink_to("T1")
    (transaction / "state").write_text(f"{state}\n")
    (transaction / "settings").write_text(f"KUBELET_UNIT kubelet.service\nKUBELET_RESTART {restarts}\n")


def changed_inputs(folder: Path) -> None:
    on_trial(folder, "confirming")
    (folder / "trial/inputs").write_text("kernel 6.12.0\n")


def ended(folder: Path) -> None:
    on_trial(folder, "confirming")
    (folder / "txn/current").unlink()


MAY_START: dict[str, tuple[Callable[[Path], object], bool]] = {
    "nothing was planned": (lambda folder: folder, False),
    "the plan waits for its confirmation": (lambda folder: on_trial(folder, "confirming"), True),
    "it waits, and its file was edited": (
        lambda folder: on_trial(folder, "confirming", drop_in="edited"),
        False,
    ),
    "it waits, and the inputs have changed": (changed_inputs, False),
    "its change has ended": (ended, False),
    "its change is at work": (lambda folder: on_trial(folder, "apply files"), False),
    "its change is proved": (lambda folder: on_trial(folder, "prove kubelet"), False),
    "its change restarts the kubelet": (
        lambda folder: on_trial(folder, "start kubelet", restarts="yes"),
        True,
    ),
    "its change restarts the kubelet on the way back": (
        lambda folder: on_trial(folder, "start kubelet", drop_in="old", restarts="yes"),
        True,
    ),
    "its change goes back": (lambda folder: on_trial(folder, "undo files", restarts="yes"), False),
    "it goes back once pods have left": (lambda folder: on_trial(folder, "parked reboot"), True),
    "its change reboots the node": (lambda folder: on_trial(folder, "reboot"), False),
}


@pytest.mark.parametrize(("make", "may"), MAY_START.values(), ids=MAY_START)
def test_kubelet_start_depends_on_the_trial_phase(make, may, shell, tmp_path):
    (tmp_path / "inputs").write_text("kernel 6.1.0\n")
    (tmp_path / "files").write_text(f"{'0' * 64}  /nonexistent\n")
    make(tmp_path)
    done = run(shell, "as_planned", tmp_path)
    assert (done.returncode == 0, done.stderr) == (may, "")
