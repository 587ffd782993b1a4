"""What a command imports before it begins: what it needs, and of pyinfra's imports what a run uses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab.paths import REPOSITORY

SUITE = REPOSITORY / "src/numaforge/verification/pytest.ini"


def said(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    ).stdout.strip()


def loaded(program: str) -> set[str]:
    return {*said(f"{program}\nimport sys; print(*sys.modules)").split()}


def test_a_command_waits_for_no_other_command() -> None:
    modules = loaded("import numaforge.cli")
    assert not modules & {"numaforge.topology.model", "numaforge.findings", "yaml", "pydantic", "rich"}


def test_a_run_imports_nothing_that_it_does_not_use() -> None:
    modules = loaded("from numaforge import lean_start; lean_start.begin(); import numaforge.site_run")
    assert "pyinfra.api" in modules
    assert not modules & {
        "invoke",
        "rich",
        "pytest",
        "pyinfra_cli.cli",
        "asyncio",
        "unittest",
        "packaging.version",
        "jinja2",
        "pydantic",
        "yaml",
    }


@pytest.mark.parametrize("command", [["capture"], ["measure"], ["measure", "--kept"]], ids=" ".join)
def test_a_command_that_asks_one_host_imports_no_more_of_pyinfra(command: list[str]) -> None:
    modules = loaded(f"from numaforge.cli import run; run({[*command, '127.0.0.1:1']!r})")
    assert "pyinfra.api" in modules
    assert not modules & {"invoke", "unittest.mock", "packaging.version", "jinja2"}


def test_a_command_that_asks_an_inventory_has_pyinfra_in_another_process() -> None:
    modules = loaded("from numaforge.cli import run; run(['measure', 'no/inventory.py'])")
    assert "numaforge.rollout.program" in modules
    assert "pyinfra" not in modules


ROLLS_OUT = {
    f"numaforge.rollout.{name}"
    for name in ("budget", "configz", "drain", "fleet", "gate", "kubectl", "leftovers", "node", "record")
}
OF_FEW_HOSTS = {"tomllib", "xml.etree", "http.client"}


def test_a_host_without_change_waits_for_nothing_that_only_a_change_or_few_hosts_need() -> None:
    roles = "import numaforge.roles.topology, numaforge.roles.maintenance, numaforge.planning.node"
    modules = loaded(
        f"from numaforge import lean_start; lean_start.begin(); import numaforge.site_run; {roles}"
    )
    assert not modules & {"numaforge.measure", "numaforge.preflight.cluster", "numaforge.verification.suite"}
    assert not modules & (ROLLS_OUT | OF_FEW_HOSTS)


PLANS = {
    f"numaforge.{name}"
    for name in ("maintenance.parts", "planning.node", "render", "roles.node", "profile.load")
}


def test_what_plans_a_host_is_imported_while_hosts_are_waited_for() -> None:
    program = "from numaforge import lean_start; lean_start.begin(); import numaforge.site_run"
    site = (REPOSITORY / "deploys/site.py").read_text().splitlines()
    deploy = [line for line in site if line.startswith("from ")]
    assert len(deploy) > 10
    assert not loaded("\n".join([program, *deploy])) & PLANS
    waiting = "from numaforge.hosts import meanwhile; import gevent; meanwhile.get_ready(1); gevent.wait()"
    assert not PLANS - loaded(f"{program}; {waiting}")


@pytest.mark.parametrize(
    ("hosts", "turn", "done"),
    [
        pytest.param(1, "sleep(0)", "False False", id="not while the one host has something to do"),
        pytest.param(1, "idle()", "True False", id="while it has not"),
        pytest.param(1000, "sleep(0)", "True False", id="between any two of many"),
    ],
)
def test_it_goes_on_a_step_at_a_time(hosts: int, turn: str, done: str) -> None:
    program = (
        "from numaforge import lean_start; lean_start.begin(); from numaforge.hosts import meanwhile\n"
        "import gevent, sys\n"
        f"meanwhile.get_ready({hosts})\n"
        f"for _ in range(3): gevent.{turn}\n"
        "print('yaml.reader' in sys.modules, 'numaforge.planning.node' in sys.modules)"
    )
    assert said(program) == done


def test_a_section_makes_no_validator_of_its_own() -> None:
    """That of a profile has theirs: one more for each section doubles what a profile costs."""
    program = (
        "from numaforge.roles.profile import NodeProfile; from numaforge.sections.section import Section; "
        "print(NodeProfile().name, [kind.__name__ for kind in Section.__subclasses__() "
        "if kind.__pydantic_complete__ and kind.__module__ != 'numaforge.roles.profile'])"
    )
    assert said(program) == "unnamed []"


def test_a_run_that_is_forked_has_imported_what_rolls_out() -> None:
    modules = loaded("from numaforge import pyinfra_cli; pyinfra_cli.prepare()")
    assert not ROLLS_OUT - modules - {"numaforge.rollout.leftovers"}


def test_a_run_that_pyinfra_began_compiles_less_from_our_first_class_on() -> None:
    program = (
        "import gc, sys, typing; from pyinfra_cli import cli; import numaforge.pyinfra_cli; "
        "print('compile' in vars(typing), gc.get_threshold()[0] > 700)"
    )
    assert said(program) == "True True"
    assert said(program.replace("from pyinfra_cli import cli; ", "")) == "False False"


def test_the_verification_suite_compiles_less_from_its_next_plugin_on() -> None:
    program = (
        "import gc, pytest, typing; pytest.main(['-p', 'numaforge.verification.lean', '--markers']); "
        "print('compile' in vars(typing), gc.get_threshold()[0] > 700)"
    )
    assert said(program).endswith("True True")
    assert "-p numaforge.verification.lean -p numaforge.verification.plugin" in SUITE.read_text()


def test_a_template_of_pyinfras_own_is_still_one() -> None:
    program = (
        "from numaforge import lean_start; lean_start.begin(); from pyinfra.api.util import get_template; "
        "import io; print(get_template(io.StringIO('{{ 6 * 7 }} {{ word }}')).render(word='as ever'))"
    )
    assert said(program) == "42 as ever"


def test_a_required_version_of_pyinfra_is_still_judged() -> None:
    program = (
        "from numaforge import lean_start; lean_start.begin(); from pyinfra.api import config; "
        "config.check_pyinfra_version('>=3,<99'); config.check_require_packages(['packaging>=1'])\n"
        "try: config.check_pyinfra_version('<1')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    assert said(program).startswith("PyinfraError pyinfra version requirement not met (requires <1")


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
