"""An image's settings for the boots of its nodes: /etc/numaforge/boot.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from numaforge.errors import NumaforgeError
from numaforge.given import read_text
from numaforge.sections.section import Section, validated
from numaforge.sections.strict_yaml import read_yaml

SETTINGS = Path("/etc/numaforge/boot.yaml")
MANIFEST = "/etc/numaforge/image/manifest.json"
"""What an image was made of."""


class BootSettings(Section):
    """What a node does before its kubelet starts."""

    profile: str | None = Field(
        default=None,
        description="The profile where nothing else names one: a ready one, one of the image's below "
        "/etc/numaforge/profiles, or a file.",
        examples=["training"],
    )
    on_change: Literal["replan", "hold", "start-unaligned"] = Field(
        default="replan",
        description="What to do with a node whose machine is no longer the one it was planned on: it plans "
        "itself again, its kubelet is not started, or its kubelet starts as the distribution configures it.",
        examples=["hold"],
    )
    gpus: int | None = Field(
        default=None,
        ge=0,
        le=64,
        strict=True,
        description="How many GPUs each node has; a node with fewer waits for the others.",
        examples=[8],
    )
    wait_seconds: int = Field(
        default=60,
        ge=0,
        le=600,
        strict=True,
        description="How long to wait for missing GPUs.",
        examples=[120],
    )
    report: bool = Field(
        default=True,
        strict=True,
        description="Whether a node verifies itself once it has joined, and reports the result on its Node.",
        examples=[False],
    )


def read_settings(path: Path = SETTINGS) -> BootSettings:
    """Return the image's settings, with defaults for the rest; raises NumaforgeError with every mistake."""
    if not path.exists():
        return BootSettings()
    document = read_yaml(read_text(path), str(path))
    if document is not None and not isinstance(document, dict):
        raise NumaforgeError("is no mapping", where=str(path), remedy="write keys such as profile: training")
    return validated(BootSettings, document or {}, str(path))
