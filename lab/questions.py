"""Programs of the lab that answer questions: a line of JSON for each line of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.errors import LabError


def answered(program: Path, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a program's answers to questions, in their order.

    Raises LabError naming the question at which the program ended.
    """
    text = "".join(f"{json.dumps(question)}\n" for question in questions)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) < len(questions):
        raise LabError(f"it ended at {json.dumps(questions[len(answers)])}: {done.stderr[-2000:]}")
    return answers
