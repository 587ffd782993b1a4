"""Names in the order that people expect."""

from __future__ import annotations

import re


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that puts mlx5_2 before mlx5_10, and gpu-2 before gpu-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
