"""The JSON Schemas: current, and of one mind with the readers about what is accepted and what is refused."""

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError, validators

from docs.schema_files import FOLDER, text
from numaforge.cli import run
from numaforge.commands.schema import NAMES
from numaforge.lib.errors import PlanError, ProfileError, TopologyError
from numaforge.machine.topology.document import from_document as read_topology
from numaforge.machine.topology.document import to_document as topology_document
from numaforge.planning.document import from_document as read_plan
from numaforge.planning.document import to_document as plan_document
from numaforge.planning.profiles import load_profile, machine_profiles, ready_profiles
from tests.fixtures.machines import MACHINES, dgx_h100
from tests.fixtures.plans import planned
from tests.fixtures.profile_examples import examples
from tests.fixtures.profile_mistakes import BOOT_PARAMETERS, MISTAKES, NO_PARAMETERS, PARAMETERS
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)
PROFILES = Path(__file__).parents[3] / "profiles"


def _pattern(_validator: Any, pattern: str, value: object, _schema: Any) -> Iterator[ValidationError]:
    """Match as JSON Schema does, in ECMAScript: to Python, `$` is also before a line break at the end."""
    if isinstance(value, str) and not re.search(pattern.replace("$", r"\Z"), value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


Validator = validators.extend(Draft202012Validator, {"pattern": _pattern})


def mistakes(name: str, document: object) -> list[str]:
    """Return what the schema finds wrong with a document."""
    return [error.message for error in validator(name).iter_errors(document)]


@cache
def validator(name: str) -> Any:
    return Validator(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def reread(document: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(document))


@pytest.mark.parametrize("name", NAMES)
def test_schema_files_match_the_models(name):
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == text(name), (
        "run: python -m docs.schema_files"
    )


@pytest.mark.parametrize("name", NAMES)
def test_schema_command_prints_a_valid_json_schema(name, capsys):
    assert run(["schema", name]) == 0
    printed = capsys.readouterr().out
    assert printed == text(name)
    Draft202012Validator.check_schema(json.loads(printed))


@pytest.mark.parametrize("name", [*ready_profiles(), *machine_profiles()])
def test_ready_profile_names_and_fits_its_schema(name):
    (file,) = PROFILES.rglob(f"{name}.yaml")
    written = file.read_text(encoding="utf-8")
    modeline = re.match(r"# yaml-language-server: \$schema=(\S+)\n", written)
    assert modeline
    assert (file.parent / modeline[1]).resolve() == (FOLDER / "profile.json").resolve()
    assert mistakes("profile", yaml.safe_load(written)) == []


@pytest.mark.parametrize("profile", [pytest.param(profile, id=key) for key, profile in examples()])
def test_example_of_each_key_fits_the_schema(profile):
    assert mistakes("profile", profile) == []


@pytest.mark.parametrize("page", ["profiles.md", "machine-profiles.md", "schemas.md"])
def test_profiles_in_the_docs_fit_the_schema(page):
    written = (FOLDER.parent / "docs" / page).read_text(encoding="utf-8")
    profiles = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", written, flags=re.DOTALL)]
    assert [mistake for profile in profiles for mistake in mistakes("profile", profile)] == []


def test_profile_may_name_its_schema():
    profile = {"$schema": "../schemas/profile.json", "extends": "training"}
    assert mistakes("profile", profile) == []
    assert load_profile(profile).kubelet == load_profile("training").kubelet


@pytest.mark.parametrize("name", MACHINES)
def test_topology_fits_its_schema(name):
    assert mistakes("topology", reread(topology_document(MACHINES[name]()))) == []


@pytest.mark.parametrize("name", [name for name in MACHINES if name != "two-cpu-vm"])
@pytest.mark.parametrize("profile", ["training", "cpu-only"])
def test_plan_fits_its_schema(name, profile):
    assert mistakes("plan", reread(plan_document(planned(MACHINES[name](), extends=profile)))) == []


# What takes arithmetic, or more than one key, is for the reader alone.
ARITHMETIC = CASES["arithmetic"]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_profile_is_refused_by_schema_and_reader(mistake):
    profile, _ = MISTAKES[mistake]
    with pytest.raises(ProfileError):
        load_profile(profile)
    assert bool(mistakes("profile", profile)) is (mistake not in ARITHMETIC)


@pytest.mark.parametrize("parameter", [*NO_PARAMETERS.values(), *BOOT_PARAMETERS, *PARAMETERS])
def test_schema_accepts_kernel_parameters_alone(parameter):
    refused = mistakes("profile", {"kernel": {"cmdline": [parameter]}})
    assert bool(refused) is (parameter not in PARAMETERS)


@cases("profile", CASES["alternative_forms"])
def test_alternative_value_forms_are_accepted_by_schema_and_reader(profile):
    assert mistakes("profile", profile) == []
    assert load_profile(profile)


# Pieces of which texts are put together, right and wrong ones, and a profile that says such a text.
VALUES = {
    "quantity": ("0 7 . + e Ki G m", lambda text: {"memory": {"kube_reserved": text}}),
    "threshold": ("0 7 100 . % Mi", lambda text: {"memory": {"eviction_hard": {"pid.available": text}}}),
    "share": ("0 7 100 . %", lambda text: {"hugepages": [{"size": "2Mi", "share": text}]}),
    "size": ("0 1 2 Ki Mi Gi", lambda text: {"hugepages": [{"size": text, "count": 1}]}),
    "cpulist": ("0 3 17 , -", lambda text: {"cpus": {"reserved": {"cpulist": text}}}),
    "version": ("v 1. 36 .2 -rc.1 +k3s1", lambda text: {"kubelet": {"version": text}}),
    "sysctl": ("net . _x -y * /0 : @", lambda text: {"tuning": {"sysctls": {text: 1}}}),
    "parameter": (
        "quiet iommu=pt intel_iommu intel-iommu =on =off nosmt ip=none skew_tick=1 , ;",
        lambda text: {"kernel": {"cmdline": [text]}},
    ),
    "unsafe-parameter": ("ro root rd. a-b = 1,2 ; $ !", lambda text: {"kernel": {"unsafe": {text: "?"}}}),
}


def accepts(profile: dict[str, Any]) -> bool:
    try:
        load_profile(profile)
    except ProfileError:
        return False
    return True


@pytest.mark.parametrize(("pieces", "profile"), VALUES.values(), ids=VALUES)
def test_schema_accepts_whatever_the_reader_accepts(pieces, profile):
    texts = ["".join(some) for length in (1, 2, 3) for some in product(pieces.split(), repeat=length)]
    accepted = [text for text in texts if accepts(profile(text))]
    assert len(accepted) > 5
    assert [text for text in accepted if mistakes("profile", profile(text))] == []


WRONG_PLANS = {
    "no-schema-number": (lambda plan: plan.pop("schema"), "plan: the plan has schema None, not 1"),
    "another-schema": (
        lambda plan: plan.update(schema=2),
        "plan: a newer numaforge wrote this plan: it has schema 2",
    ),
    "missing": (lambda plan: plan["cpus"].pop("reserved"), "plan.cpus.reserved: must be given"),
    "unknown": (lambda plan: plan["memory"].update(extra=1), "plan.memory.extra: unknown key"),
    "unknown-at-the-top": (lambda plan: plan.update(extra=1), "plan.extra: unknown key"),
    "quantity-for-bytes": (
        lambda plan: plan["memory"].update(capacity_bytes="8Gi"),
        "plan.memory.capacity_bytes: '8Gi' is not a whole number",
    ),
    "true-for-a-number": (
        lambda plan: plan["memory"].update(capacity_bytes=True),
        "plan.memory.capacity_bytes: True is not a whole number",
    ),
    "broken-cpulist": (
        lambda plan: plan["cpus"].update(online="0-"),
        "plan.cpus.online: '0-' is not a cpulist",
    ),
    "in-a-list": (lambda plan: plan["files"][0].pop("path"), "plan.files[0].path: must be given"),
    "null": (lambda plan: plan.update(tuning=None), "plan.tuning: None is not a mapping"),
    "not-a-list": (lambda plan: plan["memory"].update(numa_nodes={}), "plan.memory.numa_nodes: "),
}


@pytest.mark.parametrize(("change", "message"), WRONG_PLANS.values(), ids=WRONG_PLANS)
def test_wrong_plan_is_refused_by_schema_and_reader(change, message):
    plan = reread(plan_document(planned(dgx_h100(), extends="training")))
    change(plan)
    assert mistakes("plan", plan)
    with pytest.raises(PlanError) as refused:
        read_plan(plan)
    assert str(refused.value).startswith(message)


WRONG_TOPOLOGIES = {
    "no-schema-number": lambda node: node.pop("schema"),
    "another-schema": lambda node: node.update(schema=2),
    "missing": lambda node: node.pop("gpus"),
    "no-mapping": lambda node: node.update(cpus="0-3"),
    "broken-cpulist": lambda node: node["cpus"].update(online="0-"),
    "quantity-for-bytes": lambda node: node.update(memory_bytes="8Gi"),
    "unknown-key-of-a-device": lambda node: node["nics"][0].update(mac="x"),
    "word-for-true": lambda node: node["gpus"][0].update(mig_capable="yes"),
    "governor-of-no-cpu": lambda node: node["cpufreq"]["governors"].update({"all": "performance"}),
}


@pytest.mark.parametrize("change", WRONG_TOPOLOGIES.values(), ids=WRONG_TOPOLOGIES)
def test_wrong_topology_is_refused_by_schema_and_reader(change):
    node = reread(topology_document(dgx_h100()))
    change(node)
    assert mistakes("topology", node)
    with pytest.raises(TopologyError):
        read_topology(node)
