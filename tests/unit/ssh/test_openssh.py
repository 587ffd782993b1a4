"""What `ssh -G` is asked: a host whose configuration waits too long fails alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from numaforge.lib.errors import HostError
from numaforge.ssh import openssh

pytestmark = pytest.mark.skipif(bool(openssh.without_openssh()), reason="asks ssh")

CONFIG = """
Match originalhost hangs exec "sleep 600"
  User never
Match originalhost slow-* exec "sleep 0.8"
  User slow
Host *
  User by-default
"""
SLOW = ["slow-1", "slow-2", "slow-3"]  # longer together than one may take


def test_time_limit_is_per_answer_and_silent_host_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openssh, "_ANSWER_SECONDS", 2)
    config = tmp_path / "config"
    config.write_text(CONFIG)
    data = {"ssh_config_file": str(config)}
    openssh.ask_openssh((name, data) for name in SLOW)
    openssh.ask_openssh((name, data) for name in ("hangs", "gpu-1", "gpu-2"))
    with pytest.raises(HostError, match="has not answered within 2 s"):
        openssh.destination_of("hangs", data)
    users = {name: openssh.destination_of(name, data).user for name in (*SLOW, "gpu-1", "gpu-2")}
    assert users == {**dict.fromkeys(SLOW, "slow"), "gpu-1": "by-default", "gpu-2": "by-default"}


FASTER_THAN_THIS_PROCESS = """
from gevent import monkey

monkey.patch_all()  # as in a run of pyinfra

import sys

from numaforge.ssh import openssh


def pause(frame, event, called):
    if event == "c_return" and called.__name__ == "posix_spawnp":
        monkey.get_original("time", "sleep")(0.3)


sys.setprofile(pause)
print(openssh.destination_of("gpu-1", {"ssh_config_file": "/dev/null"}).host)
"""


def test_shell_ending_before_the_first_wait_is_noticed() -> None:
    script = [sys.executable, "-c", FASTER_THAN_THIS_PROCESS]
    answer = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert (answer.stdout, answer.stderr) == ("gpu-1\n", "")
