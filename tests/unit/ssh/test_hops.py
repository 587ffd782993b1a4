"""Jump hosts that lead to each other are refused: `ssh` would start itself without end."""

from pathlib import Path

import pytest

from numaforge.lib.errors import HostError
from numaforge.ssh.hops import dial
from numaforge.ssh.openssh import destination_of

CONFIG = """
Host itself by-itself
  HostName 192.0.2.1
  ProxyJump itself
Host gpu-1
  ProxyJump first
Host first
  HostName 192.0.2.2
  ProxyJump second
Host second
  HostName 192.0.2.3
  ProxyJump first
"""


@pytest.mark.parametrize(
    ("host", "circle"),
    [
        pytest.param("itself", "itself to itself", id="a-host-that-is-its-own-jump-host"),
        pytest.param("by-itself", "itself to itself", id="a-jump-host-that-is-its-own"),
        pytest.param("gpu-1", "first to second to first", id="two-jump-hosts-of-each-other"),
    ],
)
def test_circular_jump_hosts_are_refused(tmp_path: Path, host: str, circle: str) -> None:
    config = tmp_path / "config"
    config.write_text(CONFIG)
    with pytest.raises(HostError) as refused:
        dial(destination_of(host, {"ssh_config_file": str(config)}), 1)
    assert refused.value.message == f"ssh_config's ProxyJump leads in a circle: {circle}"
