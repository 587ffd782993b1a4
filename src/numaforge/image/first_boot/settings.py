"""An image's settings for the boots of its nodes: /etc/numaforge/boot.yaml."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import read_text
from numaforge.lib.section import Section, each_once, validated
from numaforge.lib.strict_yaml import read_yaml

SETTINGS = Path("/etc/numaforge/boot.yaml")
MANIFEST = "/etc/numaforge/image/manifest.json"
"""The components of an image."""
Source = Literal["kernel", "file", "drive", "firmware"]
_DEVICE = r"^/dev/disk/(by-path/|by-id/(ata|nvme|scsi|virtio|wwn)-)[A-Za-z0-9][A-Za-z0-9:._+=-]*$"
"""Names that udev derives from a device's location or serial number, not from its content."""


class BootSettings(Section):
    """What a node does before its kubelet starts."""

    profile: str | None = Field(
        default=None,
        description="The profile where nothing else names one: a ready one, one of the image's below "
        "/etc/numaforge/profiles, or a file.",
        examples=["training"],
    )
    sources: tuple[Source, ...] = Field(
        default=("kernel", "file", "firmware"),
        description="What may name another profile on a node, the first one first: the kernel's command "
        "line, /etc/numaforge/profile.yaml, the drive `drive`, an OEM string of the firmware.",
        examples=[["kernel", "drive"]],
    )
    drive: str | None = Field(
        default=None,
        pattern=_DEVICE,
        description="The drive of the source `drive`, by its place in the machine (/dev/disk/by-path) or "
        "by its serial number (/dev/disk/by-id). A label names no drive: any file system can have it.",
        examples=["/dev/disk/by-path/pci-0000:00:05.0"],
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
        description="How long to wait for missing GPUs, and for the drive.",
        examples=[120],
    )
    confirm_seconds: int = Field(
        default=600,
        ge=5,
        le=3600,
        strict=True,
        description="How long a node that has joined tries a new plan: then it is undone, unless the kubelet "
        "has reached the API server with it.",
        examples=[1200],
    )
    report: bool = Field(
        default=True,
        strict=True,
        description="Whether a node verifies itself once it has joined, and reports the result on its Node.",
        examples=[False],
    )

    _each_source_once = field_validator("sources")(each_once)

    @model_validator(mode="after")
    def _drive_is_a_source(self) -> "BootSettings":
        if ("drive" in self.sources) != (self.drive is not None):
            raise ValueError("write both or neither: the source drive in sources, and its device in drive")
        return self


def read_settings(path: Path = SETTINGS) -> BootSettings:
    """Return the image's settings, with defaults for the rest; raises NumaforgeError with every mistake."""
    if not path.exists():
        return BootSettings()
    document = read_yaml(read_text(path), str(path))
    if document is not None and not isinstance(document, dict):
        raise NumaforgeError(
            "is not a mapping", where=str(path), remedy="write keys such as profile: training"
        )
    return validated(BootSettings, document or {}, str(path))
