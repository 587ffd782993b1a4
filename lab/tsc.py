"""The frequency of this machine's time stamp counter, which an emulated CPU shows to its kernel unchanged.

On a busy machine the guest's own calibration against emulated timers fails or is far off,
and its clock with it.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import time
from collections.abc import Callable

MEASURED_FOR_S = 0.1

# rdtsc; shl rdx, 32; or rax, rdx; ret
_READ_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")


@functools.cache
def frequency_khz() -> int | None:
    """Return the frequency in kHz; None on a machine that is not x86-64."""
    if platform.machine() != "x86_64":
        return None
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(_READ_COUNTER)
        buffer = ctypes.c_char.from_buffer(code)
        read: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(buffer))
        try:
            begun_ns, first = time.monotonic_ns(), read()
            time.sleep(MEASURED_FOR_S)
            ended_ns, last = time.monotonic_ns(), read()
        finally:
            del read, buffer
    return round((last - first) * 1_000_000 / (ended_ns - begun_ns))
