"""What the driver's Xid codes require of an administrator: one table for findings, alerts and pages.

Source: NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors), by the action that it names
first: a reset, or a restart of the application; and nverror.h of its open kernel modules.
"""

from typing import NamedTuple


class Xid(NamedTuple):
    """A code of the driver in the kernel's log, and its meaning."""

    code: int
    meaning: str


FATAL = (
    Xid(46, "the GPU has stopped processing"),
    Xid(48, "an uncorrectable error of memory"),
    Xid(62, "the GPU's power controller (PMU) has halted"),
    Xid(64, "a row of memory could not be remapped, or a page not retired"),
    Xid(74, "an error of an NVLink"),
    Xid(79, "the GPU has fallen off the bus"),
    Xid(95, "an uncorrectable error of memory, not contained"),
    Xid(109, "a time-out of a context switch"),
    Xid(110, "a fault of the GPU's security"),
    Xid(119, "the GPU's system processor (GSP) does not answer"),
    Xid(120, "an error of the GPU's system processor (GSP)"),
    Xid(136, "training an NVLink has failed"),
    Xid(140, "an uncorrectable error of memory that the driver could not recover from"),
    Xid(143, "the GPU could not be initialised"),
    Xid(151, "the rotation of a key has failed: the virtual machine has to be restarted"),
    Xid(155, "an error of an NVLink that software has found"),
    Xid(156, "a resource of the GPU was retired"),
    Xid(158, "a time-out that the GPU does not survive"),
)
"""The GPU needs a reset, or more; its work is lost."""

APPLICATION = (
    Xid(8, "the GPU has stopped processing a channel"),
    Xid(11, "an invalid stream of commands"),
    Xid(13, "an exception of the graphics engine"),
    Xid(25, "an invalid stream of commands"),
    Xid(31, "a page fault of the GPU's memory"),
    Xid(32, "an invalid stream of commands"),
    *(Xid(code, "an exception of a copy engine") for code in (39, 40, 41)),
    Xid(43, "the GPU has stopped processing what an application gave it"),
    Xid(45, "clean-up after an application that ended"),
    Xid(60, "an exception of the video processor"),
    Xid(68, "an exception of the video decoder"),
    Xid(69, "an error of a class of the graphics engine"),
    *(Xid(code, "an exception of a copy engine") for code in (70, 71, 72, 75, 76, 77)),
    Xid(80, "corrupted data that was sent to the GPU"),
    Xid(82, "an error of a JPEG decoder"),
    *(Xid(code, "an exception of the video decoder") for code in (83, 84)),
    Xid(85, "an exception of a copy engine"),
    Xid(86, "an exception of the engine for optical flow"),
    *(Xid(code, "an exception of the video decoder") for code in (88, 89)),
    Xid(94, "an uncorrectable error of memory, contained in one application"),
    *(Xid(code, "an exception of the video decoder") for code in (96, 97, 98)),
    *(Xid(code, "an error of a JPEG decoder") for code in range(99, 106)),
    *(Xid(code, "an exception of a copy engine") for code in range(126, 136)),
    Xid(137, "a fault of another GPU's memory, over NVLink"),
    Xid(139, "an exception of the engine for optical flow"),
)
"""The application is at fault, or alone lost, by this code; the GPU keeps working."""

IGNORED = (
    Xid(63, "a row of memory will be remapped, as GpuRowRemapPending says"),
    *(Xid(code, "a message of a test") for code in (106, 107)),
)
"""Nothing to do, by the catalogue's first action and its second."""

NONE_YET = 0
"""DCGM's value for no Xid since it started."""
