"""The shared RDMA device plugin's own code as a program that answers questions: `lab/go/rdma-plugin`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from lab import gobuild
from lab.errors import LabError


def ask(questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers to questions (their form: `Question` in lab/go/rdma-plugin/main.go), in their order.

    Raises LabError naming the question at which the program ended.
    """
    program = gobuild.build(gobuild.RDMA_ORACLE) / "oracle"
    text = "".join(f"{json.dumps(question)}\n" for question in questions)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) < len(questions):
        raise LabError(f"it ended at {json.dumps(questions[len(answers)])}: {done.stderr[-2000:]}")
    return answers
