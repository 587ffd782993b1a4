"""When the lab takes something to be there."""

from __future__ import annotations

import socket

import pytest

from lab.errors import LabError
from lab.qmp import listens
from lab.waiting import wait_until


def test_a_socket_is_there_once_it_takes_connections(socket_folder):
    path = socket_folder / "a.sock"
    seen = [listens(path)]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        seen.append(listens(path))
        server.listen()
        seen.append(listens(path))
    assert (seen, path.exists()) == ([False, False, True], True)


def test_what_is_found_is_returned():
    found = iter((0, "", "eight GPUs"))
    assert wait_until(lambda: next(found), "has no GPUs", every_s=0) == "eight GPUs"


def test_what_does_not_come_about_is_named_with_its_place():
    with pytest.raises(LabError, match=r"^worker-1: has no GPUs after 0 s$"):
        wait_until(lambda: False, "has no GPUs", 0, every_s=0, where="worker-1")
