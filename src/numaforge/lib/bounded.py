"""Limits for another machine's output: endless output costs neither memory nor time.

Every reader of a host or an API server counts with an `Allowance`, and raises its error.
"""

import os
import selectors
import subprocess
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

from numaforge.lib.errors import HostError
from numaforge.lib.given import MOST_MIB

BYTES_PER_LINE = 128
"""The bytes of a line besides its text: Python's overhead per string."""
_CHUNK = 2**16


class TooMuchOutputError(HostError):
    """A host or a server sends more than the limit."""


@dataclass
class Allowance:
    """How much more of an answer is read; `where` names the host or the server, once known."""

    where: str | None = None
    bytes_left: int = MOST_MIB * 2**20

    def spend(self, chunk: bytes) -> bytes:
        """Return a part of the answer; raises TooMuchOutputError where it exceeds the allowance."""
        self.bytes_left -= len(chunk) + BYTES_PER_LINE * chunk.count(b"\n")
        if self.bytes_left < 0:
            raise TooMuchOutputError(
                f"sends more than {MOST_MIB} MiB, the most of one answer that is read; it was not used",
                where=self.where,
            )
        return chunk


def unpacked(packed: bytes) -> bytes:
    """Return what gzip packed, or its readable part; raises zlib.error for others, TooMuchOutputError."""
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # 16: with gzip's header
    allowance, parts = Allowance(), []
    while packed:
        parts.append(allowance.spend(unpack.decompress(packed, _CHUNK)))
        packed = unpack.unconsumed_tail
    return b"".join(parts)


def read_all(read: Callable[[int], bytes], where: str) -> bytes:
    """Return the output of `read(size)` until it is empty; raises TooMuchOutputError."""
    allowance, parts = Allowance(where), []
    while part := read(_CHUNK):
        parts.append(allowance.spend(part))
    return b"".join(parts)


def run(
    command: Sequence[str] | bytes,
    *,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    where: str | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program, or a text by the shell; raises TooMuchOutputError and TimeoutExpired after ending it."""
    allowance = Allowance(where)
    deadline = None if timeout is None else time.monotonic() + timeout
    with (
        subprocess.Popen(
            command,
            shell=isinstance(command, bytes),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        outputs: dict[object, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
        try:
            while selector.get_map():
                if deadline is not None and time.monotonic() >= deadline:
                    raise subprocess.TimeoutExpired(command, timeout or 0)
                for key, _ in selector.select(_seconds_left(deadline)):
                    if chunk := os.read(key.fd, _CHUNK):
                        outputs[key.fileobj] += allowance.spend(chunk)
                    else:
                        selector.unregister(key.fileobj)
            process.wait(_seconds_left(deadline))
        except BaseException:
            process.kill()
            raise
    out, err = (bytes(outputs[stream]) for stream in (process.stdout, process.stderr))
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run_script(script: str, *arguments: str, timeout: float) -> subprocess.CompletedProcess[bytes]:
    """Run a script with this machine's shell; raises as `run` does."""
    with TemporaryFile() as stdin:
        stdin.write(script.encode("utf-8", "surrogateescape"))
        stdin.seek(0)
        return run(["sh", "-s", *arguments], stdin=stdin, timeout=timeout)


def _seconds_left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0)
