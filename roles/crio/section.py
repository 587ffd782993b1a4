"""Section `pod_tuning`: what pods may ask of the container runtime for their own CPUs."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from numaforge.lib.section import Section, each_once

Ask = Literal["interrupts", "cpu_quota", "load_balancing", "c_states", "governor"]


class PodTuning(Section):
    """What pods with whole CPUs may request from CRI-O by annotations; containerd has no such feature."""

    allow: Annotated[tuple[Ask, ...], AfterValidator(each_once)] = Field(
        default=(),
        description="What pods of the runtime class may request for their CPUs: no interrupts, no CFS "
        "quota, no load balancing by the scheduler, sleep states, the governor.",
        examples=[["cpu_quota", "c_states", "governor"]],
    )
    runtime_class: str = Field(
        default="high-performance",
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        description="The RuntimeClass of these pods.",
        examples=["performance-gpu"],
    )
