"""PCIe links as users name them."""

_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # by GT/s


def lanes(speed: float | None, width: int | None) -> str:
    """Return a link's generation and width, `Gen5 x16`; what is unknown is left out."""
    generation = f"Gen{_GENERATION[speed]}" if speed in _GENERATION else ""
    return " ".join(part for part in (generation, f"x{width}" if width else "") if part)
