"""Start a kubelet with one whole configuration after another and say how each start ended; runs on the node.

`python3 judge.py FOLDER` finds the kubelet and `cases.json` in FOLDER and prints one JSON document a line:
first the kubelet's version, then the verdicts in the order of the cases. Nothing but Python is needed: what
it imports of numaforge is put in front of it.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from numaforge.kubelet.last_words import last_words

STARTED = b"Starting Kubelet Plugin Manager"
"""The managers have started, and nothing that is started after this one can end the kubelet."""
LIVES_ON_S = 0.2
PATIENCE_S = 120
STATE_FILES = ("cpu_manager_state", "memory_manager_state")


class Judge:
    """One kubelet, started alone: without an API server, with the node's container runtime."""

    def __init__(self, folder: Path) -> None:
        self.kubelet = folder / "kubelet"
        self.config = folder / "kubelet.yaml"
        self.drop_ins = folder / "kubelet.conf.d"
        self.root = folder / "root"
        self.keys = folder / "pki"
        self.left_behind: dict[str, dict[str, str]] = {}

    def version(self) -> str:
        """Return the kubelet's version."""
        return subprocess.run(
            [str(self.kubelet), "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()

    def try_case(self, case: dict[str, Any]) -> dict[str, Any]:
        """Return how the kubelet ended with a case, and the state files that it found."""
        state = {**self._state_after(case["before"]), **case["state"]}
        for name, old, new in case["edits"]:
            if old not in state[name]:
                raise ValueError(f"{case['id']}: {name} holds no {old!r}: {state[name]}")
            state[name] = state[name].replace(old, new)
        error = self._start(case["config"], case["drop_ins"], case["flags"], state)
        return {"id": case["id"], "starts": error is None, "error": error or "", "state": state}

    def _state_after(self, config: str | None) -> dict[str, str]:
        """Return the state files of a kubelet that ran with `config`; one that many cases share runs once."""
        if config is None:
            return {}
        if config not in self.left_behind:
            error = self._start(config, {}, [], {})
            if error is not None:
                raise ValueError(f"the configuration before does not start: {error}\n{config}")
            self.left_behind[config] = {name: (self.root / name).read_text() for name in STATE_FILES}
        return self.left_behind[config]

    def _start(
        self, config: str, drop_ins: dict[str, str], flags: list[str], state: dict[str, str]
    ) -> str | None:
        """Return the text with which the kubelet died, or None when it has started."""
        for folder in (self.root, self.drop_ins):
            shutil.rmtree(folder, ignore_errors=not folder.exists())
            folder.mkdir()
        _write(self.root, state)
        _write(self.drop_ins, drop_ins)
        self.config.write_text(config)
        arguments = [f"--config={self.config}", f"--root-dir={self.root}", f"--cert-dir={self.keys}"]
        if drop_ins:
            arguments.append(f"--config-dir={self.drop_ins}")
        output, to_us = os.pipe()
        process = subprocess.Popen(
            [str(self.kubelet), *arguments, *flags],
            # An emulated machine has one host thread: more threads only wait for each other.
            env={**os.environ, "GOMAXPROCS": "1", "GOGC": "off"},
            stdin=subprocess.DEVNULL,
            stdout=to_us,
            stderr=to_us,
        )
        os.close(to_us)
        try:
            said, lives = _listen(output)
        finally:
            process.kill()
            process.wait()
            os.close(output)
        if lives:
            return None
        error = last_words(said)
        if error is None:
            raise ValueError(f"the kubelet ended without an error:\n{said[-2000:]}")
        return error


def _listen(output: int) -> tuple[str, bool]:
    """Return the kubelet's output, and whether it has started and still runs."""
    said = b""
    started = False
    deadline = time.monotonic() + PATIENCE_S
    while select.select([output], [], [], max(0, deadline - time.monotonic()))[0]:
        piece = os.read(output, 1 << 16)
        if not piece:
            return said.decode(errors="replace"), False
        said += piece
        if not started and STARTED in said:
            started = True
            deadline = time.monotonic() + LIVES_ON_S
    if not started:
        raise TimeoutError(f"neither started nor ended after {PATIENCE_S} s:\n{said.decode()[-2000:]}")
    return said.decode(errors="replace"), True


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main(folder: Path) -> None:
    """Print the kubelet's version and the verdict of every case."""
    judge = Judge(folder)
    print(json.dumps({"version": judge.version()}), flush=True)
    for case in json.loads((folder / "cases.json").read_text()):
        begun = time.monotonic()
        verdict = judge.try_case(case)
        print(json.dumps({**verdict, "took_s": round(time.monotonic() - begun, 2)}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
