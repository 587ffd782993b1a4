"""Whom the kubelet has given devices: its pod-resources API, asked by the script of a capture."""

import json
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.machine.snapshot import catalogue, pod_resources_probe
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.snapshot.pod_resources_probe import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    LARGEST_FRAME,
    PING,
    RST_STREAM,
    SETTINGS,
    answer,
    frame,
)
from tests.fixtures.tables import cases

# One pod, one container, one device near to two NUMA nodes, as gRPC's own library for Go sends it: the
# settings, a ping, headers, the message in two frames, and the status.
DEVICE = b"\x0a\x0envidia.com/gpu" + b"\x12\x05GPU-0"
CONTAINER = b"\x0a\x04main" + (b"\x12" + bytes([len(DEVICE)]) + DEVICE) * 2 + b"\x1a\x02\x01\x02"
POD = b"\x0a\x07train-0\x12\x06team-a\x1a" + bytes([len(CONTAINER)]) + CONTAINER
LIST = b"\x0a" + bytes([len(POD)]) + POD
OPENING = frame(SETTINGS, 0, 0) + frame(PING, 0, 0, b"12345678") + frame(HEADERS, END_HEADERS, 1, b"\x88")
STATUS = frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x40\x0bgrpc-status\x010")
HELD = ["team-a/train-0", "main", "nvidia.com/gpu", "GPU-0"]


def message(data):
    """Return a message with its head, in two frames."""
    data = b"\0" + len(data).to_bytes(4, "big") + data
    return frame(DATA, 0, 1, data[:7]) + frame(DATA, 0, 1, data[7:])


@contextmanager
def server(path, reply, heard=None):
    """Answer one call after the other with these bytes, and then say nothing more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    over = threading.Event()

    def serve():
        while not over.is_set():
            link, _ = listener.accept()
            with link, suppress(ConnectionError):
                link.recv(65536)
                link.sendall(reply)
                while part := link.recv(65536):
                    if heard is not None:
                        heard.append(part)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield path
    finally:
        over.set()
        with suppress(OSError), socket.socket(socket.AF_UNIX) as last:
            last.connect(str(path))
        thread.join(10)
        listener.close()


@pytest.fixture
def path(socket_folder):
    return socket_folder / "kubelet.sock"


def test_devices_of_every_container_are_listed_once(path):
    with server(path, OPENING + message(LIST) + STATUS):
        assert answer(str(path)) == [tuple(HELD)]


def test_http2_settings_and_pings_are_acknowledged(path):
    heard = []
    with server(path, OPENING + message(LIST) + STATUS, heard):
        answer(str(path))
    assert b"".join(heard) == frame(SETTINGS, ACK, 0) + frame(PING, ACK, 0, b"12345678")


def test_node_without_pods_has_assigned_no_devices(path):
    with server(path, OPENING + message(b"") + STATUS):
        assert answer(str(path)) == []


UNREADABLE = "its answer cannot be read"


@cases(
    "reply, why",
    {
        "an-error-status": (OPENING + STATUS, f"{UNREADABLE}: an error instead of a list"),
        "away": (OPENING + frame(GOAWAY, 0, 0, bytes(8)), f"{UNREADABLE}: the call was refused"),
        "reset": (frame(RST_STREAM, 0, 1, bytes(4)), f"{UNREADABLE}: the call was refused"),
        "http-1": (b"HTTP/1.1 400 Bad Request\r\n\r\n", f"{UNREADABLE}: this is not HTTP/2"),
        "packed": (OPENING + frame(DATA, 0, 1, b"\1\0\0\0\1a") + STATUS, f"{UNREADABLE}: no single message"),
        "short": (OPENING + frame(DATA, 0, 1, b"\0\0\0\0\7a") + STATUS, f"{UNREADABLE}: no single message"),
        "torn-head": (OPENING + frame(DATA, END_STREAM, 1, b"\0"), f"{UNREADABLE}: no single message"),
        "a-length-past-the-end": (
            OPENING + message(b"\x0a\x7fabc") + STATUS,
            f"{UNREADABLE}: no message of the pod-resources API",
        ),
        "a-kind-of-field-that-is-not-there": (
            OPENING + message(b"\x0b\x01") + STATUS,
            f"{UNREADABLE}: no message of the pod-resources API",
        ),
        "torn": (OPENING + message(b"\xff") + STATUS, f"{UNREADABLE}: index out of range"),
        "no-text": (
            OPENING + message(LIST.replace(b"GPU-0", b"GPU-\xff")) + STATUS,
            f"{UNREADABLE}: 'utf-8' codec can't decode byte 0xff in position 4: invalid start byte",
        ),
    },
)
def test_invalid_answer_is_reported_with_its_reason(path, reply, why):
    with server(path, reply):
        assert answer(str(path)) == why


def test_closed_connection_counts_as_no_answer(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True).start()
    said = answer(str(path))
    listener.close()
    assert said in (f"{UNREADABLE}: the connection was closed", "Connection reset by peer", "Broken pipe")


def test_hanging_server_times_out(path, monkeypatch):
    monkeypatch.setattr(pod_resources_probe, "SECONDS", 0.2)
    with server(path, OPENING):
        assert answer(str(path)) == "it did not answer within 0.2 s"


def test_endless_answer_is_cut_off_at_the_size_limit(path, monkeypatch):
    monkeypatch.setattr(pod_resources_probe, "MOST_BYTES", 4 * LARGEST_FRAME)
    with server(path, OPENING + 9 * frame(DATA, 0, 1, bytes(LARGEST_FRAME))):
        assert answer(str(path)) == f"{UNREADABLE}: more than {4 * LARGEST_FRAME} bytes"


def test_stale_kubelet_socket_refuses_the_connection(path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert answer(str(path)) == "Connection refused"


@pytest.fixture
def host(shell, folder_of_root):
    """Capture this machine as if the kubelet's root were a folder of the test."""
    python = folder_of_root / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to("/usr/bin/python3")

    def capture():
        text = script().replace(ROOT_DIR, str(folder_of_root / "kubelet"))
        return parse_output(shell(text, {"PATH_FIRST": str(python.parent)}).stdout)

    return capture


def device_checkpoint(folder, entries):
    """Write what a kubelet has kept of devices; return where it answers."""
    file = folder / "kubelet" / catalogue.DEVICE_CHECKPOINT
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"Data": {"PodDeviceEntries": entries}}))
    return folder / "kubelet" / catalogue.POD_RESOURCES


def test_script_queries_the_kubelet(host, folder_of_root):
    path = device_checkpoint(folder_of_root, [{"PodUID": "a"}])
    with server(path, OPENING + message(LIST) + STATUS):
        snapshot = host()
    assert json.loads(snapshot.files[str(path)]) == [HELD]
    assert "pod resources" not in snapshot.commands


def test_script_records_why_the_kubelet_did_not_answer(host, folder_of_root):
    path = device_checkpoint(folder_of_root, [{"PodUID": "a"}])
    with server(path, OPENING + STATUS):
        snapshot = host()
    assert str(path) not in snapshot.files
    assert snapshot.commands["pod resources"] == f"{UNREADABLE}: an error instead of a list"


def test_kubelet_without_assigned_devices_is_not_queried(host, folder_of_root):
    path = device_checkpoint(folder_of_root, [])
    with server(path, OPENING + message(LIST) + STATUS):
        snapshot = host()
    assert str(path) not in snapshot.files
    assert "pod resources" not in snapshot.commands


def test_host_without_a_kubelet_is_not_queried(host):
    assert "pod resources" not in host().commands
