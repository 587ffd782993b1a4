"""The kubelet's own code as a program that answers questions, built for eight minors from `lab/go/oracle`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab import gobuild, kubelets
from lab.errors import LabError

MINORS = kubelets.MINORS
_OLDEST = 30

Question = Mapping[str, Any]
Answer = dict[str, Any]


def component(minor: str) -> gobuild.Component:
    """Return what builds the oracle for one minor: one source, and the module file of its kubelet."""
    number = int(minor.partition(".")[2])
    return gobuild.Component(
        f"oracle-{minor}",
        (("oracle", "."),),
        tags=tuple(f"from{since}" for since in range(_OLDEST + 1, number + 1)),
        version_module="k8s.io/kubernetes",
        sources="oracle",
        modules=kubelets.component(minor).name,
    )


class Oracle:
    """The oracle of one minor, with a folder of its own in which it lays out what it is asked about."""

    def __init__(self, minor: str) -> None:
        self.minor = minor
        self.version = kubelets.version(minor)
        self._program = gobuild.build(component(minor)) / "oracle"
        self._folder = tempfile.TemporaryDirectory(prefix=f"oracle-{minor}-")
        self._worker = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.shutdown()
        self._folder.cleanup()

    @property
    def folder(self) -> Path:
        """Return the folder that the kubelet's texts name."""
        return Path(self._folder.name)

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers to questions (their form: `Question` in lab/go/oracle/main.go), in their order.

        Raises LabError naming the question at which the program ended.
        """
        return self.begin(questions)()

    def begin(self, questions: Sequence[Question]) -> Callable[[], list[Answer]]:
        """Ask in the background, after what was asked before; what is returned waits for the answers."""
        asked: Future[list[Answer]] = self._worker.submit(self._answers, questions)
        return asked.result

    def _answers(self, questions: Sequence[Question]) -> list[Answer]:
        # After a panic of the kubelet's the program has ended, and the next questions are for another one.
        answers: list[Answer] = []
        while len(answers) < len(questions):
            left = questions[len(answers) :]
            text = "".join(f"{json.dumps(question)}\n" for question in left)
            done = subprocess.run(
                [self._program, self.folder], input=text, capture_output=True, text=True, check=False
            )
            given = [json.loads(line) for line in done.stdout.split("\n") if line]
            answers += given
            if not given or (done.returncode != 0 and len(answers) < len(questions)):
                raise LabError(
                    f"the oracle {self.minor} ended at {json.dumps(left[len(given)])}: {done.stderr[-2000:]}"
                )
        return answers
