"""What the transaction's scripts are told; what they do is in tests/ssh and tests/lab."""

from __future__ import annotations

import json
from typing import Any

import pytest

from numaforge.bundle import FileContent
from numaforge.errors import HostError
from numaforge.rollout.transaction import Result, Transaction, health_url, read_result, start_script

CHANGE = Transaction("20261121T101500Z-1a2b3c", "kubelet.service", (FileContent("/etc/a", "x\n"),))


@pytest.mark.parametrize(
    ("config", "url"),
    [
        pytest.param({}, "http://127.0.0.1:10248/healthz", id="defaults"),
        pytest.param({"healthzPort": 1234}, "http://127.0.0.1:1234/healthz", id="port"),
        pytest.param({"healthzBindAddress": "0.0.0.0"}, "http://127.0.0.1:10248/healthz", id="any-address"),  # noqa: S104
        pytest.param({"healthzBindAddress": "::"}, "http://[::1]:10248/healthz", id="any-ipv6-address"),
        pytest.param({"healthzBindAddress": "10.1.2.3"}, "http://10.1.2.3:10248/healthz", id="address"),
        pytest.param({"healthzPort": 0}, None, id="off"),
    ],
)
def test_health_is_asked_where_the_configuration_puts_it(config: dict[str, Any], url: str | None) -> None:
    assert health_url(config) == url


def test_the_unit_has_a_deadline_and_undoes_what_it_leaves() -> None:
    command = next(line for line in start_script(CHANGE).splitlines() if "systemd-run " in line)
    assert "--property=RuntimeMaxSec=" in command
    assert f"ExecStopPost=/bin/sh {CHANGE.folder}/run.sh recover" in command
    assert f"--unit=numaforge-kubelet-{CHANGE.id}.service" in command


def test_a_result_is_read_back() -> None:
    text = json.dumps({"id": "T", "outcome": "applied", "reason": "", "journal": ["a", "b"]})
    assert read_result(text) == Result("T", "applied", "", ("a", "b"))


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"id": "T"'], ids=["empty", "no-fields", "a-list", "cut-off"]
)
def test_a_result_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(HostError):
        read_result(text)
