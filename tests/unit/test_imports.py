"""What a command imports before it begins, and what a run imports before its hosts are asked."""

import subprocess
import sys

from lab.paths import REPOSITORY


def said(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    ).stdout.strip()


def loaded(program: str) -> set[str]:
    return {*said(f"{program}\nimport sys; print(*sys.modules)").split()}


def test_cli_import_loads_no_command_dependencies() -> None:
    modules = loaded("import numaforge.cli")
    assert not modules & {
        "numaforge.machine.topology.model",
        "numaforge.findings",
        "yaml",
        "pydantic",
        "rich",
    }


def test_version_loads_only_click():
    modules = loaded("from numaforge.cli import run; run(['--version'])") - loaded("import click")
    assert not modules & {"json", "pathlib", "shutil", "dataclasses", "difflib", "click.shell_completion"}


def test_profile_defaults_are_values_not_factories():
    """Pydantic asks a factory that is a type for its signature, for which inspect compiles a tokenizer."""
    program = "import numaforge.planning.profile, tokenize; print(tokenize._compile.cache_info().misses)"
    assert said(program) == "0"


def test_inventory_commands_run_pyinfra_in_another_process() -> None:
    modules = loaded("from numaforge.cli import run; run(['measure', 'no/inventory.py'])")
    assert "numaforge.rollout.program" in modules
    assert "pyinfra" not in modules


def test_node_that_plans_itself_loads_no_tls() -> None:
    assert not loaded("import numaforge.image.first_boot.run") & {"ssl", "http.client"}


ROLLS_OUT = {
    f"numaforge.rollout.{name}"
    for name in ("budget", "configz", "drain", "fleet", "gate", "kubectl", "node", "record")
}
OF_FEW_HOSTS = {"tomllib", "xml.etree", "http.client"}


def test_unchanged_host_loads_no_rollout_or_rare_modules() -> None:
    roles = "import numaforge.run.topology, numaforge.run.maintenance, numaforge.planning.node"
    modules = loaded(f"from gevent import monkey; monkey.patch_all(); import numaforge.run.site_run; {roles}")
    assert not modules & {
        "numaforge.fleet.measure",
        "numaforge.preflight.cluster",
        "numaforge.verification.suite",
    }
    assert not modules & (ROLLS_OUT | OF_FEW_HOSTS)


PLANS = {
    f"numaforge.{name}"
    for name in (
        "change.parts",
        "planning.node",
        "planning.render",
        "planning.plan",
        "planning.profiles",
    )
}


def test_pyinfra_run_without_role_loads_no_machine_model() -> None:
    modules = loaded("from gevent import monkey; monkey.patch_all(); import numaforge.run.pyinfra_cli")
    assert not modules & (PLANS | {"numaforge.machine.topology.model", "pydantic", "rich"})


def test_planning_is_imported_only_after_a_host_answers() -> None:
    program = "from gevent import monkey; monkey.patch_all(); import numaforge.run.site_run"
    _, deploy, _ = (REPOSITORY / "deploys/site.py").read_text().split("\n\n")
    assert "numaforge.run.roles" in deploy
    assert not loaded(f"{program}\n{deploy}") & PLANS


def test_profile_section_builds_no_separate_validator() -> None:
    """That of a profile has theirs: one more for each section doubles what a profile costs."""
    program = (
        "from numaforge.planning.profile import NodeProfile; from numaforge.lib.section import Section; "
        "print(NodeProfile().name, [kind.__name__ for kind in Section.__subclasses__() "
        "if kind.__pydantic_complete__ and kind.__module__ != 'numaforge.planning.profile'])"
    )
    assert said(program) == "unnamed []"


def test_forked_run_has_planning_and_rollout_preloaded() -> None:
    modules = loaded("from numaforge.run import pyinfra_cli; pyinfra_cli.prepare()")
    assert not (ROLLS_OUT | PLANS) - modules
