"""Proofs by traffic: the shell that sends it, and what is made of the answers."""

import os
import subprocess
from pathlib import Path

import pytest

from numaforge.lib import shell
from numaforge.machine.measure_outputs import nccl_all_reduce, perftest_write
from numaforge.roles.rdma.promises import all_reduce_threshold, bandwidth, write_threshold

# Stands in for perftest and rdma-core: a server that listens late, and a client that finds it or not.
STAND_IN = """\
#!/bin/sh
echo "$@" >> "$PLACE/calls"
case "$*" in
*127.0.0.1)
    [ -e "$PLACE/listening" ] || { echo "Couldn't connect" >&2; exit 1; }
    rm "$PLACE/listening"
    echo "100 iters in 0.00 seconds" ;;
*)
    [ ! -e "$PLACE/broken" ] || { echo "Couldn't create QP" >&2; exit 1; }
    sleep 0.2
    : > "$PLACE/listening"
    while [ -e "$PLACE/listening" ]; do sleep 0.1; done ;;
esac
"""
ZERO, LINK, ADDRESS = (
    "0000:0000:0000:0000:0000:0000:0000:0000",
    "fe80:0000:0000:0000:5054:00ff:fe12:3456",
    "0000:0000:0000:0000:0000:ffff:0a0a:0001",
)
V1, V2 = "IB/RoCE v1", "RoCE v2"


@pytest.fixture(params=["dash", "bash", "busybox sh"])
def sh(request: pytest.FixtureRequest) -> list[str]:
    return str(request.param).split()


def prove(
    place: Path, sh: list[str], layer: str, gids: list[tuple[str, str]], *, tool: bool = True
) -> subprocess.CompletedProcess[str]:
    port = place / "devices/rxe0/ports/1"
    (port / "gid_attrs/types").mkdir(parents=True)
    (port / "gids").mkdir()
    (port / "link_layer").write_text(f"{layer}\n")
    for index, (kind, gid) in enumerate(gids):
        (port / f"gid_attrs/types/{index}").write_text(f"{kind}\n")
        (port / f"gids/{index}").write_text(f"{gid}\n")
    programs = place / "bin"
    programs.mkdir()
    if tool:
        (programs / "ibv_rc_pingpong").write_text(STAND_IN)
        (programs / "ibv_rc_pingpong").chmod(0o755)
    script = shell.library("verification/active") + shell.call("loopback", ["rxe0", "1", "18515"])
    return subprocess.run(
        [*sh, "-c", script],
        env={
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PLACE": str(place),
            "devices": str(place / "devices"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("layer", "gids", "given"),
    [
        ("InfiniBand", [(V1, LINK)], []),
        ("Ethernet", [(V1, ADDRESS), (V2, LINK), (V2, ADDRESS)], ["-g", "2"]),
        ("Ethernet", [(V1, LINK), (V2, LINK)], ["-g", "1"]),
    ],
    ids=["InfiniBand needs no index", "an IP address before a link-local one", "a link-local one alone"],
)
def test_a_port_sends_to_itself(tmp_path, sh, layer, gids, given):
    done = prove(tmp_path, sh, layer, gids)
    assert (done.returncode, done.stdout, done.stderr) == (0, "100 iters in 0.00 seconds\n", "")
    calls = (tmp_path / "calls").read_text().splitlines()
    wanted = " ".join(["-d", "rxe0", "-i", "1", *given, "-n", "100", "-p", "18515"])
    assert set(calls) == {wanted, f"{wanted} 127.0.0.1"}


def test_missing_program_is_named(tmp_path, sh):
    done = prove(tmp_path, sh, "InfiniBand", [], tool=False)
    assert (done.returncode, done.stderr) == (127, "ibv_rc_pingpong\n")


def test_a_port_without_an_address_is_named(tmp_path, sh):
    done = prove(tmp_path, sh, "Ethernet", [(V1, ADDRESS), (V2, ZERO)])
    assert done.returncode == 1
    assert "rxe0 port 1 has no address for RoCE v2" in done.stderr


def test_failed_server_reports_why(tmp_path, sh):
    (tmp_path / "broken").touch()
    done = prove(tmp_path, sh, "InfiniBand", [])
    assert done.returncode == 1
    assert "Couldn't create QP" in done.stderr


WRITE = """400 Gb/sec (4X NDR)
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    233400           0.00               391.52             0.046673
---------------------------------------------------------------------------------------
"""
REDUCE = """0x10de
0x2330
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 480.318
#
"""


def test_results_are_compared_with_the_row_of_the_hardware():
    assert bandwidth(WRITE, perftest_write) == 391.52
    assert bandwidth(REDUCE, nccl_all_reduce) == 480.318
    rows = (write_threshold(WRITE), all_reduce_threshold(REDUCE))
    assert [row and row.least for row in rows] == [380.0, 460.0]


@pytest.mark.parametrize("text", ["", "100 Gb/sec (4X EDR)\n", "0x10de\n0x31c2\n"])
def test_hardware_without_a_row_is_not_judged(text):
    assert write_threshold(text) is None
    assert all_reduce_threshold(text) is None
    assert bandwidth(text, perftest_write) is None
    assert bandwidth(text, nccl_all_reduce) is None
