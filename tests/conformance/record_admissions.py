"""Record what each minor's own code answers to random sequences of pods, removals and restarts.

`python -m tests.conformance.record_admissions [MINOR...]` needs Go, as `make test-all PART=oracle` does.
Minors that are not named keep their answers.
"""

import json
import lzma
import sys
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from lab.oracle import MINORS, Oracle
from tests.oracle.admissions import sequence
from tests.oracle.case import Case
from tests.oracle.machines import Shape

FOLDER = Path(__file__).with_name("admissions")
SEQUENCES = 60
FOLDER_OF_ORACLE = "/oracle"
_TIMES = 4
"""How often each is asked: a sequence that the kubelet itself answers in more than one way proves nothing."""


def load(minor: str) -> list[dict[str, Any]]:
    """Return the recorded sequences of a minor: `case`, `answer`, the kubelet's `version`."""
    recorded: list[dict[str, Any]] = json.loads(lzma.decompress((FOLDER / f"{minor}.json.xz").read_bytes()))
    return recorded


def case_of(recorded: dict[str, Any]) -> Case:
    """Return a recorded case."""
    fields = recorded["case"]
    return Case(
        fields["settings"],
        machine=Shape(**fields["machine"]),
        devices=fields["devices"],
        operations=tuple(fields["operations"]),
    )


def main() -> None:
    """Write the files."""
    for minor in sys.argv[1:] or MINORS:
        FOLDER.mkdir(exist_ok=True)
        text = json.dumps(_recorded(minor), separators=(",", ":"))
        packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
        (FOLDER / f"{minor}.json.xz").write_bytes(packed)


def _recorded(minor: str) -> list[dict[str, Any]]:
    random = Random(f"recorded/{minor}")  # noqa: S311
    with Oracle(minor) as oracle:
        cases = [sequence(random, oracle.version, restarts=True) for _ in range(SEQUENCES)]
        questions = [case.question() for case in cases]
        answers, *again = (oracle.ask(questions) for _ in range(_TIMES))
        folder = str(oracle.folder)
    return [
        {
            "version": oracle.version,
            "case": _fields(case),
            "answer": json.loads(json.dumps(_kept(answer)).replace(folder, FOLDER_OF_ORACLE)),
        }
        for case, answer, *others in zip(cases, answers, *again, strict=True)
        if all(other == answer for other in others)
    ]


def _kept(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in ("admissions", "restarts", "error") if name in answer}


def _fields(case: Case) -> dict[str, Any]:
    names = ("settings", "machine", "devices", "operations")
    return {name: value for name, value in asdict(case).items() if name in names}


if __name__ == "__main__":
    main()
