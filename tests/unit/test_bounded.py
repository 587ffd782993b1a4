"""What another machine sends is read up to one limit: memory is measured, not time."""

from __future__ import annotations

import gzip
import http.server
import subprocess
import threading
import tracemalloc
import urllib.request
import zlib
from contextlib import contextmanager

import pytest

from numaforge import bounded
from numaforge.bounded import BYTES_PER_LINE, MOST_MIB, Allowance, TooMuchOutputError, read_all, run, unpacked

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
def test_an_allowance_counts_what_is_kept(chunk, cost):
    allowance = Allowance()
    assert allowance.spend(chunk) == chunk
    assert allowance.left == LIMIT - cost


def test_an_error_names_host_and_limit():
    allowance = Allowance("gpu-1", left=10)
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
@pytest.mark.parametrize("reply", [None, lambda _: None], ids=["", "that is never replied to"])
def test_a_program_that_prints_without_end_is_ended_at_the_limit(script, reply):
    with within_the_limit(), pytest.raises(TooMuchOutputError, match=f"gpu-1: {FLOOD}"):
        run(script, where="gpu-1", reply=reply)


def test_both_outputs_and_the_status_of_a_program_are_returned():
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


def test_a_program_that_says_nothing_is_ended_in_time():
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sleep", "1000"], timeout=0.1)


def test_a_program_that_closes_its_outputs_is_ended_in_time():
    with pytest.raises(subprocess.TimeoutExpired):
        run(b"exec sleep 1000 >&- 2>&-", timeout=0.1)


@pytest.mark.parametrize(
    ("script", "understood", "reply", "out"),
    [
        pytest.param(b"echo a; cat", b"a", b"b", b"a\nb", id="once it is understood"),
        pytest.param(
            b"echo a; sleep 0.1; echo b; cat", b"b", b"c", b"a\nb\nc", id="which may take more of it"
        ),
        pytest.param(b"echo a; wc -c", b"a", b"x" * 2**20, b"a\n1048576\n", id="with much"),
        pytest.param(b"echo a; cat", b"a", b"", b"a\n", id="or with nothing"),
        pytest.param(b"echo a", b"b", b"x", b"a\n", id="but for one that ends before"),
        pytest.param(b"exec 0<&-; echo a", b"a", b"x" * 2**20, b"a\n", id="and for one that does not read"),
    ],
)
def test_a_program_is_replied_to(script, understood, reply, out):
    assert run(script, reply=lambda said: reply if understood in said else None).stdout == out


def test_one_that_says_nothing_before_its_input_ends_is_not_awaited_for_ever(monkeypatch):
    monkeypatch.setattr(bounded, "SILENCE_SECONDS", 0.1)
    assert run(b"cat > /dev/null; echo a", reply=lambda _: None).stdout == b"a\n"


def test_an_error_in_a_reply_ends_the_program():
    with pytest.raises(ZeroDivisionError):
        run(b"echo a; exec sleep 1000", reply=lambda _: b"%d" % (1 // 0))


@pytest.mark.parametrize("filling", [b"\0", b"\n"], ids=["zeros", "empty lines"])
def test_a_packed_answer_is_unpacked_up_to_the_limit(filling):
    pack = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    first, again = (pack.compress(filling * 2**24) + pack.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    packed = first + 63 * again + pack.flush()  # a GiB: what is flushed so stands by itself
    with within_the_limit(), pytest.raises(TooMuchOutputError, match=FLOOD):
        unpacked(packed)


def test_what_was_packed_is_unpacked():
    text = bytes(range(256)) * 4096
    assert unpacked(gzip.compress(text)) == text


def test_of_a_packed_answer_that_is_cut_off_the_beginning_is_read():
    assert b"hello\n" * 100 in unpacked(gzip.compress(b"hello\n" * 1000)[:-8])


def test_a_server_that_answers_without_end_is_read_up_to_the_limit():
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


def test_the_limit_is_that_of_files():
    from numaforge import given

    assert bounded.MOST_MIB == given.MOST_MIB
