"""Section `pod_tuning`: what pods may ask of the container runtime for their own CPUs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from numaforge.sections.section import ProfileKey, Section, each_once

Ask = Literal["interrupts", "cpu_quota", "load_balancing", "c_states", "governor"]


class PodTuning(Section):
    """What pods with whole CPUs may ask of CRI-O, by annotations; containerd has nothing of the kind."""

    allow: Annotated[tuple[Ask, ...], AfterValidator(each_once)] = Field(
        default=(),
        description="What pods of the runtime class may ask for: no interrupts on their CPUs, no CFS quota, "
        "no balancing by the scheduler, sleep states and the governor of their CPUs.",
        examples=[["cpu_quota", "c_states", "governor"]],
    )
    runtime_class: str = Field(
        default="high-performance",
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        description="The RuntimeClass that such pods name.",
        examples=["performance-gpu"],
    )


KEY = ProfileKey("pod_tuning", PodTuning, PodTuning.unset(), "What pods may ask of CRI-O for their own CPUs.")
