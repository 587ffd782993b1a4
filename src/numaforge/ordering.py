"""Names in the order that people expect."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import cycle


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that puts mlx5_2 before mlx5_10, and gpu-2 before gpu-10."""
    # int() alone refuses thousands of digits.
    return [
        (int(Decimal(part)), "") if number else (-1, part)
        for part, number in zip(re.split(r"([0-9]+)", name), cycle((False, True)), strict=False)
    ]
