"""What a proof finds that is not as predicted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mismatch:
    """Something that is not as predicted."""

    name: str
    predicted: str
    actual: str

    def __str__(self) -> str:
        return f"{self.name}: predicted {self.predicted}, found {self.actual}"
