"""A host that is odd, and a fault of ours on one host: the others go on."""

import json
import re

from tests.ssh.machine import machine
from tests.ssh.sandbox import pyinfra
from tests.ssh.site_runs import PLAN, data, plain

_ODD = {"/etc/os-release": "NAME=Bob's Linux\nID=bob\n", PLAN: "[" * 100_000}
_FAULTY_ROLE = """
from pyinfra import host

from numaforge.run.hosts.roles import role

@role("Faulty")
def faulty():
    if host.name == "bad":
        {}["nothing"]
    host.log("went on")

faulty()
"""


def test_host_with_unbalanced_quotes_and_a_broken_plan_is_provisioned(start_sandbox, tmp_path):
    odd, good = start_sandbox(machine() | _ODD), start_sandbox(machine())
    run = pyinfra(tmp_path, {"odd": data(odd), "good": data(good)}, "-y", "deploys/site.py")
    assert run.returncode == 0, plain(run.stdout)
    assert "earlier-plan-unreadable" in run.stdout
    for node in (odd, good):
        assert json.loads(node.path(PLAN).read_text())["schema"]


def test_internal_error_stops_its_host_only(start_sandbox, tmp_path):
    deploy = tmp_path / "deploy.py"
    deploy.write_text(_FAULTY_ROLE)
    bad, good = start_sandbox(machine()), start_sandbox(machine())
    output = pyinfra(tmp_path, {"bad": data(bad), "good": data(good)}, "-y", str(deploy))
    said = plain(output.stdout)
    assert output.returncode == 1, said
    assert re.search(r"refused: bad\s+internal error: KeyError: 'nothing' \(deploy\.py, line 9\)", said), said
    assert re.search(r"\[good\]\s+went on", said), said
    assert "Traceback" not in said
