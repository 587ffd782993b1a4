"""What another machine sends is read up to one limit: memory is measured, not time."""

import gzip
import http.server
import subprocess
import threading
import tracemalloc
import urllib.request
import zlib
from contextlib import contextmanager

import pytest

from numaforge.lib import bounded
from numaforge.lib.bounded import (
    BYTES_PER_LINE,
    MOST_MIB,
    Allowance,
    TooMuchOutputError,
    read_all,
    run,
    unpacked,
)

LIMIT = MOST_MIB * 2**20
FLOOD = f"sends more than {MOST_MIB} MiB"


@contextmanager
def within_the_limit(times: int = 3):
    """Hold what is done to a peak of memory; a chunk more, and a copy when parts are joined."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < times * LIMIT


@pytest.mark.parametrize(
    ("chunk", "cost"),
    [
        pytest.param(b"x" * 100, 100, id="a byte counts one"),
        pytest.param(b"\n" * 100, 100 + 100 * BYTES_PER_LINE, id="a line counts what Python keeps of it"),
    ],
)
def test_allowance_counts_kept_memory(chunk, cost):
    allowance = Allowance()
    assert allowance.spend(chunk) == chunk
    assert allowance.bytes_left == LIMIT - cost


def test_an_error_names_host_and_limit():
    allowance = Allowance("gpu-1", bytes_left=10)
    with pytest.raises(TooMuchOutputError) as refused:
        allowance.spend(b"x" * 11)
    assert str(refused.value).startswith(f"gpu-1: {FLOOD}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(b"exec head -c 1073741824 /dev/zero", id="one line of 1 GiB"),
        pytest.param(b"exec yes", id="lines without end"),
        pytest.param(b"exec yes >&2", id="complaints without end"),
    ],
)
def test_endless_program_output_is_stopped_at_the_limit(script):
    with within_the_limit(), pytest.raises(TooMuchOutputError, match=f"gpu-1: {FLOOD}"):
        run(script, where="gpu-1")


def test_both_outputs_and_the_status_of_a_program_are_returned():
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


def test_silent_program_is_ended_at_the_timeout():
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sleep", "1000"], timeout=0.1)


def test_program_that_closes_its_outputs_is_still_timed_out():
    with pytest.raises(subprocess.TimeoutExpired):
        run(b"exec sleep 1000 >&- 2>&-", timeout=0.1)


@pytest.mark.parametrize("filling", [b"\0", b"\n"], ids=["zeros", "empty lines"])
def test_compressed_response_is_unpacked_up_to_the_limit(filling):
    pack = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    first, again = (pack.compress(filling * 2**24) + pack.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    packed = first + 63 * again + pack.flush()  # a GiB: what is flushed so stands by itself
    with within_the_limit(), pytest.raises(TooMuchOutputError, match=FLOOD):
        unpacked(packed)


def test_compressed_response_survives_a_round_trip():
    text = bytes(range(256)) * 4096
    assert unpacked(gzip.compress(text)) == text


def test_truncated_compressed_response_yields_its_beginning():
    assert b"hello\n" * 100 in unpacked(gzip.compress(b"hello\n" * 1000)[:-8])


def test_endless_server_response_is_read_up_to_the_limit():
    class Endless(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(bytes(2**20))
            except (BrokenPipeError, ConnectionResetError):
                ended.set()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    ended = threading.Event()
    with http.server.HTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        with (
            urllib.request.urlopen(url, timeout=60) as answer,
            within_the_limit(),
            pytest.raises(TooMuchOutputError, match=f"the API server: {FLOOD}"),
        ):
            read_all(answer.read, "the API server")
        assert ended.wait(60)


def test_response_limit_equals_the_file_limit():
    from numaforge.lib import given

    assert bounded.MOST_MIB == given.MOST_MIB
