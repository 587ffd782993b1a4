"""What is handed in: files, JSON and YAML, each refused with what is wrong and where."""

import fcntl
import os
import sys
import termios
import threading
import time
from pathlib import Path
from typing import IO

import pytest

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import NotJsonError, digits, parse_json, read_text
from numaforge.lib.strict_yaml import read_yaml
from numaforge.machine.snapshot.redaction import redact, redact_nvidia_smi
from numaforge.machine.topology.cpus import parse_mask


def test_pipe_is_read_to_its_end(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with os.fdopen(held, "wb", buffering=0) as end:
            for part in (b"one ", b"two"):
                end.write(part)
                while waiting(end):  # until the reader has it: what nobody has open loses what is in it
                    time.sleep(0.01)

    def waiting(end: IO[bytes]) -> int:
        return int.from_bytes(fcntl.ioctl(end, termios.FIONREAD, bytes(4)), sys.byteorder)

    reader, writer = os.pipe()
    os.write(writer, b"early")
    os.close(writer)
    assert read_text(f"/dev/fd/{reader}") == "early"
    os.close(reader)
    held = os.open(pipe, os.O_RDWR)  # so that the reader finds a writer
    thread = threading.Thread(target=write)
    thread.start()
    assert read_text(pipe) == "one two"
    thread.join()


def test_file_one_byte_over_the_limit_is_refused(tmp_path: Path):
    file = tmp_path / "file"
    file.write_bytes(b"a" * 2**20)
    assert len(read_text(file, most_mib=1)) == 2**20
    file.write_bytes(b"a" * (2**20 + 1))
    with pytest.raises(NumaforgeError, match="is larger than 1 MiB"):
        read_text(file, most_mib=1)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("12", 12, id="digits"),
        pytest.param(" 12\n", 12, id="spaces-around"),
        pytest.param("", None, id="nothing"),
        pytest.param("-1", None, id="a-sign"),
        pytest.param("²", None, id="a-digit-that-is-no-number"),
        pytest.param("١٢", None, id="digits-of-another-script"),
        pytest.param("1_0", None, id="an-underscore"),
        pytest.param("9" * 20, 10**20 - 1, id="twenty"),
        pytest.param("9" * 21, None, id="twenty-one"),
    ],
)
def test_number_contains_only_ascii_digits(text, number):
    assert digits(text) == number


def test_json_at_its_limits_is_read():
    assert parse_json('\N{ZERO WIDTH NO-BREAK SPACE}{"a": 18446744073709551615}') == {"a": 2**64 - 1}
    assert parse_json("[" * 100 + "]" * 100)
    with pytest.raises(NotJsonError, match="100 levels"):
        parse_json("[" * 102 + "]" * 102)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        pytest.param("a: 2025-02-28", {"a": "2025-02-28"}, id="a-date-is-a-text"),
        pytest.param("a: 1:30", {"a": "1:30"}, id="no-numbers-in-base-60"),
        pytest.param("a: &x {b: 1}\nc: {<<: *x, d: 2}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}, id="a-merge"),
        pytest.param("a: !!str 1", {"a": "1"}, id="the-tag-of-a-text"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_yaml_values_are_read_as_an_admin_means_them(text, read):
    assert read_yaml(text, "file.yaml") == read


def test_yaml_error_names_file_and_line():
    with pytest.raises(NumaforgeError, match=r"^file\.yaml, line 4: the key 'c' is written twice"):
        read_yaml("a: 1\nb:\n  c: 1\n  c: 2\n", "file.yaml")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("token" * 200_000, id="one-word"),
        pytest.param("a." * 500_000, id="schemes"),
        pytest.param("\n" * 1_000_000, id="lines"),
        pytest.param("<" * 1_000_000, id="elements"),
        pytest.param(" " * 1_000_000, id="spaces"),
        pytest.param("<" + "serial" * 150_000, id="an-element-without-end"),
    ],
)
def test_redaction_time_is_linear_in_text_length(text):
    begun = time.process_time()
    redact(text)
    redact_nvidia_smi(text)
    assert time.process_time() - begun < 10


def test_megabyte_mask_is_refused_quickly():
    with pytest.raises(ValueError, match="not a bitmap"):
        parse_mask("ffffffff," * 100_000 + "f")
