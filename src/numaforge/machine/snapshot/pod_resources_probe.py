"""Ask the kubelet which containers have which devices; sent to hosts, where it runs on Python alone.

One call of gRPC over HTTP/2 (RFC 9113, and PROTOCOL-HTTP2.md of gRPC): List of the pod-resources API
(k8s.io/kubelet/pkg/apis/podresources/v1). Pods without devices are left out where they are read.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

SECONDS = 5  # for the whole call: one List of a kubelet with 250 pods takes milliseconds
MOST_BYTES = 16 * 2**20  # as much as the kubelet's own clients take
LARGEST_FRAME = 16384  # the default limit, which a server must keep

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE, LARGEST_WINDOW, FIRST_WINDOW = 4, 2**31 - 1, 65535
VARINT, LENGTH, SIZES = 0, 2, {0: 0, 1: 8, 5: 4}  # of Protocol Buffers: how a field is written, its bytes


def literal(name: bytes, value: bytes) -> bytes:
    """Return a header field that is not indexed (RFC 7541, 6.2.2); `name` is encoded, `value` is not."""
    return name + bytes([len(value)]) + value


# What starts with an index takes its name from the static table: 1 :authority, 4 :path, 31 content-type.
REQUEST = b"".join(
    (
        b"\x83\x86",  # :method POST, :scheme http
        literal(b"\x01", b"localhost"),
        literal(b"\x04", b"/v1.PodResourcesLister/List"),
        literal(b"\x0f\x10", b"application/grpc"),
        literal(b"\x00\x02te", b"trailers"),
    )
)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


# The windows are opened as far as they go, so that no answer waits for a WINDOW_UPDATE. The last frame is the
# question, an empty message.
CALL = b"".join(
    (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, LARGEST_WINDOW)),
        frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGEST_WINDOW - FIRST_WINDOW)),
        frame(HEADERS, END_HEADERS, 1, REQUEST),
        frame(DATA, END_STREAM, 1, bytes(5)),
    )
)


def answer(path: str) -> list[tuple[str, ...]] | str:
    """Return `NAMESPACE/NAME`, container, resource and id of each assigned device; else why not."""
    try:
        return sorted(devices(message(exchange(path))))
    except TimeoutError:
        return f"it did not answer within {SECONDS} s"
    except OSError as error:
        return error.strerror or str(error)
    except (ValueError, IndexError) as error:
        return f"its answer cannot be read: {error}"


def exchange(path: str) -> bytes:
    """Return the data that the server sends until it ends the call."""
    deadline = time.monotonic() + SECONDS
    answer_bytes = bytearray()
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(SECONDS)
        link.connect(path)
        link.sendall(CALL)
        while len(answer_bytes) <= MOST_BYTES:
            high, low, kind, flags, stream = struct.unpack(">BHBBI", received(link, 9, deadline))
            size = high << 16 | low
            if size > LARGEST_FRAME:
                raise ValueError("this is not HTTP/2")
            payload = received(link, size, deadline)
            if kind in (RST_STREAM, GOAWAY):
                raise ValueError("the call was refused")
            if kind in (SETTINGS, PING) and not flags & ACK:
                link.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
            if kind == DATA:
                answer_bytes += payload
            if stream == 1 and kind in (DATA, HEADERS) and flags & END_STREAM:
                return bytes(answer_bytes)
    raise ValueError(f"more than {MOST_BYTES} bytes")


def received(link: socket.socket, count: int, deadline: float) -> bytes:
    """Return `count` bytes once they have arrived."""
    data = b""
    while len(data) < count:
        link.settimeout(max(deadline - time.monotonic(), 0.001))
        part = link.recv(count - len(data))
        if not part:
            raise ValueError("the connection was closed")
        data += part
    return data


def message(data: bytes) -> bytes:
    """Return the one message of a call; an error status has none."""
    if not data:
        raise ValueError("an error instead of a list")
    packed, size = struct.unpack(">BI", data[:5]) if len(data) >= 5 else (0, -1)
    if packed or size != len(data) - 5:
        raise ValueError("no single message")
    return data[5:]


def devices(listed: bytes) -> set[tuple[str, ...]]:
    """Return the devices of a ListPodResourcesResponse, each once, however many NUMA nodes it is near to."""
    return {
        (f"{text(pod, 2)}/{text(pod, 1)}", text(container, 1), text(allocation, 1), device.decode())
        for pod in parts(listed, 1)
        for container in parts(pod, 3)
        for allocation in parts(container, 2)
        for device in parts(allocation, 2)
    }


def text(data: bytes, field: int) -> str:
    """Return a text field; an empty one is not sent."""
    return b"".join(parts(data, field)).decode()


def parts(data: bytes, field: int) -> Iterator[bytes]:
    """Yield the contents of a field of a message, in Protocol Buffers' encoding."""
    at = 0
    while at < len(data):
        key, at = number(data, at)
        size = SIZES.get(key & 7, -1)
        if key & 7 == VARINT:
            _, at = number(data, at)
        if key & 7 == LENGTH:
            size, at = number(data, at)
        if size < 0 or at + size > len(data):
            raise ValueError("no message of the pod-resources API")
        if key == field << 3 | LENGTH:
            yield data[at : at + size]
        at += size


def number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where the next part begins."""
    value = shift = 0
    while data[at] > 127:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1
