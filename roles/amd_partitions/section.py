"""Section `amd_partitions`: the compute and memory modes of AMD's GPUs, and how their plugin names them."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from numaforge.lib.section import Section, at_most_one_of, given
from numaforge.lib.section_values import as_text, fits
from numaforge.roles.mig.section import Numbers, UnitName

RELEASE = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){1,3}")
"""A release of AMD's device plugin, in profiles and plans."""


PluginRelease = Annotated[
    str,
    AfterValidator(fits(RELEASE, "is not a release of AMD's device plugin; write for example 1.31.0.10")),
    as_text("release", f"^{RELEASE.pattern}$"),
]


class AmdGpus(Section):
    """The modes of AMD's GPUs: of all, or of those that either model or indices selects."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [at_most_one_of("model", "indices"), {"anyOf": [given("compute"), given("memory")]}]
        }
    )

    model: str | None = Field(
        default=None,
        description="Only GPUs of this model: mi300a, mi300x, mi308x, mi325x, mi350x, mi355x, or a PCI id.",
        examples=["mi300x"],
    )
    indices: Numbers | None = Field(
        default=None, description="Only these of AMD's GPUs, counted from 0 in PCI order.", examples=[[0, 1]]
    )
    compute: Literal["SPX", "DPX", "TPX", "QPX", "CPX"] | None = Field(
        default=None,
        description="Compute mode: 1, 2, 3 or 4 partitions per GPU, or one per die (CPX). Unset: unchanged.",
        examples=["CPX"],
    )
    memory: Literal["NPS1", "NPS2", "NPS4", "NPS8"] | None = Field(
        default=None,
        description="Memory mode: the number of parts that a GPU's memory is divided into. It is the same "
        "for all GPUs of a hive, and a change reloads the driver. Unset: unchanged.",
        examples=["NPS4"],
    )

    @model_validator(mode="after")
    def _some_modes_of_some_gpus(self) -> Self:
        if self.model is not None and self.indices is not None:
            raise ValueError("model and indices are mutually exclusive")
        if self.compute is None and self.memory is None:
            raise ValueError("the GPUs' modes are missing; set compute, memory or both")
        return self


class AmdPartitions(Section):
    """How AMD's GPUs are partitioned. GPUs that no entry selects stay as they are."""

    gpus: tuple[AmdGpus, ...] = Field(default=(), description="The modes of GPUs; at most one entry per GPU.")
    managed_by: Literal["numaforge", "device-config-manager"] = Field(
        default="numaforge",
        description="What sets the modes. device-config-manager is AMD's: the roll-out sets the label that "
        "selects the same modes in its ConfigMap, and changes nothing on the node.",
        examples=["device-config-manager"],
    )
    naming: Literal["single", "mixed"] = Field(
        default="single",
        description="The -resource_naming_strategy of AMD's device plugin: amd.com/gpu for everything, or "
        "one resource per pair of modes, such as amd.com/cpx_nps4.",
        examples=["mixed"],
    )
    plugin: PluginRelease = Field(
        default="1.31.0.10",
        description="The release of AMD's device plugin that runs on the node; before 1.31.0.7 it does not "
        "name resources by mode.",
        examples=["1.31.0.9"],
    )
    may_stop: tuple[UnitName, ...] = Field(
        default=(),
        description="Units that may be stopped for a change; they are started again after it. Units that "
        "hold a GPU when the node is read need not be listed.",
        examples=[["gpuagent.service"]],
    )
