"""What the driver's Xid codes require of an administrator: one table for findings, alerts and pages.

The numbers of the fatal ones are those with which DCGM's health check fails a GPU; those of applications
are those that NVIDIA's device plugin does not count as a fault of the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Xid:
    """A code that the driver writes into the kernel's log, and what it means."""

    code: int
    meaning: str


FATAL = (
    Xid(48, "an uncorrectable error of memory"),
    Xid(74, "an error of an NVLink"),
    Xid(79, "the GPU has fallen off the bus"),
    Xid(94, "an uncorrectable error of memory, contained in one application"),
    Xid(95, "an uncorrectable error of memory, not contained"),
    Xid(119, "the GPU's system processor (GSP) does not answer"),
    Xid(120, "an error of the GPU's system processor (GSP)"),
    Xid(140, "an uncorrectable error of memory that the driver could not recover from"),
)
"""The GPU needs a reset, or more; its work is lost."""

APPLICATION = (
    Xid(13, "an exception of the graphics engine"),
    Xid(31, "a page fault of the GPU's memory"),
    Xid(43, "the GPU has stopped processing what an application gave it"),
    Xid(45, "clean-up after an application that ended"),
    Xid(68, "an exception of the video decoder"),
    Xid(109, "a time-out of a context switch"),
)
"""The application is at fault, by this code alone; the GPU keeps working."""

NONE_YET = 0
"""What DCGM reports where there was no Xid since it started."""
