"""The files that tell libraries of the rails: what they hold, when they go, and what comes back."""

import shlex
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from numaforge.lib.errors import PlanError
from numaforge.planning.plan import NodePlan
from numaforge.planning.render import render_plan
from numaforge.roles.rdma.nccl_conf import parse
from numaforge.roles.rdma.planned import LIBRARY_PATHS, NCCL_CONF_PATH, RAILS_ENV_PATH
from numaforge.verification.table import entries
from tests.fixtures.plans import after, planned
from tests.fixtures.rdma_machines import dgx
from tests.fixtures.role_files import library_files

ADMINS = "# ours\n\nNCCL_DEBUG=WARN\n"


def plan(admin: str | None = None, **libraries: Any) -> NodePlan:
    return planned(dgx(nccl_conf=admin), rdma={"libraries": libraries})


def test_nccl_reads_planned_and_admin_lines() -> None:
    chosen = plan(ADMINS, nccl_conf=True, nccl={"NCCL_IB_TIMEOUT": 22})
    text = render_plan(chosen)[NCCL_CONF_PATH]
    assert text.endswith(f"# What the admin has here, and gets back:\n{ADMINS}")
    assert parse(text) == {**chosen.rdma.libraries.nccl, "NCCL_DEBUG": "WARN"}


def test_shell_reads_the_variables() -> None:
    chosen = plan(env_file=True, ucx=True, nccl={"NCCL_ALGO": "allreduce:tree;broadcast:ring"})
    text = render_plan(chosen)[RAILS_ENV_PATH]
    script = f'set -a\n{text}printf \'%s\\n\' "$NCCL_ALGO" "$NCCL_SOCKET_IFNAME"'
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["allreduce:tree;broadcast:ring", "=bond0"]
    assert shlex.quote("allreduce:tree;broadcast:ring") in text


SWITCHES = {"pcie_switches": [{"devices": ["0000:1b:00.0", "0000:18:00.0"]}]}
WRITTEN = {
    "nothing": ({}, []),
    "for pods only": ({"ucx": True}, []),
    "nccl.conf": ({"nccl_conf": True}, ["/etc/nccl.conf"]),
    "environment": ({"env_file": True}, ["/etc/numaforge/rails.env"]),
    "topology": (SWITCHES, ["/etc/numaforge/nccl-topology.xml"]),
}


@pytest.mark.parametrize(("libraries", "written"), WRITTEN.values(), ids=WRITTEN)
def test_unplanned_library_files_are_removed(libraries: dict[str, Any], written: list[str]) -> None:
    files, absent = library_files(plan(**libraries))
    assert [file.path for file in files] == written
    assert sorted([*written, *absent]) == sorted(LIBRARY_PATHS)


def test_admin_file_is_restored_unchanged() -> None:
    first = plan(ADMINS, nccl_conf=True)
    machine = after(dgx(nccl_conf=render_plan(first)[NCCL_CONF_PATH]), first)
    files, absent = library_files(planned(machine))
    assert [(file.path, file.text) for file in files] == [(NCCL_CONF_PATH, ADMINS)]
    assert NCCL_CONF_PATH not in absent


def test_value_of_a_library_with_several_lines_is_refused() -> None:
    chosen = plan(nccl_conf=True)
    libraries = replace(chosen.rdma.libraries, nccl={"NCCL_IB_TC": "1\nNCCL_DEBUG=INFO"})
    with pytest.raises(PlanError, match="is not one line"):
        render_plan(replace(chosen, rdma=replace(chosen.rdma, libraries=libraries)))


def test_each_port_is_expected_to_be_active() -> None:
    chosen = plan(nccl_conf=True)
    table = entries(chosen, "port_is_active")
    assert table["mlx5_3:1"] == ("/sys/class/infiniband/mlx5_3/ports/1/state", "ACTIVE")
    assert len(table) == 8
    assert entries(chosen, "port_is_active", ["tuning"]) == {}
