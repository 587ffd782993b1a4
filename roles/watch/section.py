"""Section `watch`: whether the node compares itself with its plan, and where it reports."""

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from numaforge.lib.section import Section, given

DIRECTORY = "/var/lib/node_exporter/textfile_collector"


class Watch(Section):
    """Every minute the node compares itself with its plan. If off, nothing is installed for it."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"anyOf": [given("directory"), given("condition")]},
            "then": given("enabled", {"const": True}),
        }
    )

    enabled: bool = Field(
        default=False,
        description="true: a timer compares the node with its plan every minute.",
        examples=[True],
        strict=True,
    )
    directory: str | None = Field(
        default=None,
        description=f"Folder of node_exporter's textfile collector, {DIRECTORY} by default.",
        pattern=r"^(/[A-Za-z0-9_][A-Za-z0-9._+@-]*)+$",
        max_length=200,
        examples=["/var/lib/prometheus/node-exporter"],
    )
    condition: bool | None = Field(
        default=None,
        description="Whether to set the condition numaforge.io/PlanDrift on its Node, true by default.",
        examples=[False],
        strict=True,
    )

    @model_validator(mode="after")
    def _off_says_nothing_else(self) -> Self:
        extra_keys = sorted(name for name in ("directory", "condition") if getattr(self, name) is not None)
        if extra_keys and not self.enabled:
            raise ValueError(f"has {', '.join(extra_keys)} and does not watch; set enabled: true as well")
        return self
