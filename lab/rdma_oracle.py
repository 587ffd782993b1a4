"""The shared RDMA device plugin's own code as a program that answers questions: `lab/go/rdma-plugin`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab import gobuild
from lab.questions import answered


def ask(questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers to questions (their form: `Question` in lab/go/rdma-plugin/main.go), in their order.

    Raises LabError naming the question at which the program ended.
    """
    return answered(gobuild.build(gobuild.RDMA_ORACLE) / "oracle", questions)
