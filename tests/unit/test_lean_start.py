"""What a command imports before it begins: what it needs, and of pyinfra's imports what a run uses."""

from __future__ import annotations

import subprocess
import sys


def said(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def loaded(program: str) -> set[str]:
    return {*said(f"{program}\nimport sys; print(*sys.modules)").split()}


def test_a_command_waits_for_no_other_command() -> None:
    modules = loaded("import numaforge.cli")
    assert not modules & {"numaforge.topology.model", "numaforge.findings", "yaml", "pydantic", "rich"}


def test_a_run_imports_nothing_that_it_does_not_use() -> None:
    modules = loaded("from numaforge import lean_start; lean_start.begin(); import numaforge.site_run")
    assert "pyinfra.api" in modules
    assert not modules & {"invoke", "rich", "pytest", "pyinfra_cli.cli", "asyncio", "unittest"}


def test_what_a_line_match_exec_of_an_ssh_config_needs_is_imported_when_it_is_used() -> None:
    program = (
        "import sys; from numaforge import lean_start; lean_start.begin(); import paramiko.config as config; "
        "print('invoke' in sys.modules, config.invoke.run is __import__('invoke').run)"
    )
    assert said(program) == "False True"


def test_sockets_are_those_of_gevent_and_other_programs_find_their_plugins() -> None:
    program = (
        "import importlib.metadata as m; before = m.entry_points; from numaforge import lean_start; "
        "lean_start.begin(); from gevent import monkey; print(monkey.is_module_patched('socket'), "
        "m.entry_points is before)"
    )
    assert said(program) == "True True"
