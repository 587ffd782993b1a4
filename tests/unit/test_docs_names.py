"""What the pages have to name: every field, label and notice that there is; and what is written into them."""

import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

import pytest

from bench.comparison import plans as comparison
from docs import (
    alert_tables,
    check_examples,
    convert_tables,
    host_data,
    host_settings,
    machine_profiles,
    profile_reference,
    rollout_reference,
    rule_tables,
)
from lab.paths import REPOSITORY
from numaforge import api
from numaforge.cli import run
from numaforge.findings.engine import Verdict
from numaforge.findings.gpudirect.pairs import Works
from numaforge.machine.knobs import KNOBS
from numaforge.planning.convert.rows import Fate
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import machine_profiles as profiles_of_machines
from numaforge.planning.profiles import ready_profiles
from numaforge.report.audit_documents import STATES
from numaforge.roles.device_plugin import labels
from numaforge.roles.host.managers import KUBELET_SYSCTLS
from numaforge.roles.host.section import Host, Limits
from numaforge.roles.kernel_cmdline.section import Kernel
from numaforge.roles.kernel_values.part import RECORD
from numaforge.roles.kernel_values.section import Tuning
from numaforge.roles.mig.models import models
from numaforge.roles.rdma.manifests import POOLS_LABEL

DOCS = REPOSITORY / "docs"

GENERATED: dict[str, Callable[[str], str]] = {
    "alerts.md": alert_tables.page,
    "check.md": check_examples.page,
    "convert.md": convert_tables.page,
    "host-settings.md": host_settings.page,
    "machine-profiles.md": machine_profiles.page,
    "profiles.md": profile_reference.page,
    "provision.md": host_data.page,
    "rollout.md": rollout_reference.page,
    "comparison.md": lambda text: re.sub(
        f"(?s)({comparison.BEGIN}).*({comparison.END})",
        lambda at: at[1] + comparison.generated() + at[2],
        text,
    ),
    **{
        page.name: lambda text, page=page: rule_tables.page(page, text)  # type: ignore[misc]
        for page in rule_tables.PAGES
    },
}


@pytest.mark.parametrize("name", GENERATED)
def test_generated_page_text_is_current(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    assert GENERATED[name](text) == text, "run the module of docs/ that writes it, or make bench-plans"


def findings(role: str) -> list[str]:
    """Return the ids of a plugin's findings."""
    return [*json.loads((REPOSITORY / "roles" / role / "findings.json").read_text())]


def fields_of_a_plan(kind: type = NodePlan) -> set[str]:
    """Return the names of a plan's fields, and of those of everything in it."""
    seen: dict[str, type] = {}

    def walk(kind: type) -> None:
        seen[kind.__name__] = kind
        for hint in get_type_hints(kind).values():
            for inner in inner_types(hint):
                if is_dataclass(inner) and inner.__name__ not in seen and "topology" not in inner.__module__:
                    walk(inner)

    walk(kind)
    return {field.name for part in seen.values() for field in fields(part)}


def inner_types(hint: object) -> Iterable[type]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for inner in get_args(hint):
        yield from inner_types(inner)


def notices() -> set[str]:
    trees = (REPOSITORY / "src/numaforge", REPOSITORY / "roles")
    sources = [file.read_text() for tree in trees for file in tree.rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"[Nn]otice\(\s*\"([^\"]+)\"", text)}
    return named | {knob.feature.id for knob in KNOBS if knob.feature}


NAMES: dict[str, Iterable[str]] = {
    "device-plugin.md": [
        *findings("device_plugin"),
        *(value for name, value in vars(labels).items() if name.endswith("_LABEL")),
    ],
    "host.md": [
        *(f"host.{name}" for name in Host.model_fields if name != "limits"),
        *(f"host.limits.{name}" for name in Limits.model_fields),
        *KUBELET_SYSCTLS,
    ],
    "host-settings.md": [*({*Tuning.model_fields, *Kernel.model_fields} - {"state"}), RECORD],
    "mig.md": [model.key for model in models()],
    "profiles.md": [*ready_profiles(), *profiles_of_machines()],
    "python.md": api.__all__,
    "rdma-device-plugin.md": [*findings("rdma"), POOLS_LABEL],
    "read-a-plan.md": fields_of_a_plan() | notices(),
}


@pytest.mark.parametrize("page", NAMES)
def test_page_names_every_item_of_its_subject(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [name for name in sorted(NAMES[page]) if not re.search(rf"`{re.escape(name)}\b", text)] == []


def test_page_explains_exactly_the_existing_notices():
    page = (DOCS / "read-a-plan.md").read_text(encoding="utf-8")
    table = page.partition("## Notices")[2].partition("## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == notices()


# A page, a command whose document it explains, and the values that it explains beside the fields.
DOCUMENTS = [
    pytest.param("gpu-findings.md", "audit --only gpus hgx-h100-fabric", Verdict, id="gpu-findings.md"),
    pytest.param("gpudirect.md", "audit --only gpudirect dgx-h100-acs", Works, id="gpudirect.md"),
    pytest.param("audit.md", "audit dgx-h100 dgx-h100-busy", STATES, id="audit.md"),
    pytest.param("mig.md", "mig check mig-config.yaml dgx-h100", (), id="mig.md"),
    pytest.param("convert.md", "convert kubelet.yaml", Fate, id="convert.md"),
]


@pytest.mark.parametrize(("page", "command", "values"), DOCUMENTS)
def test_page_explains_every_field_of_its_document(page, command, values, tmp_path, monkeypatch, capsys):
    for file in (DOCS / "mig-config.yaml", REPOSITORY / "tests/fixtures/convert/kubelet.yaml"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    run([*command.split(), "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    rows = (value[0] for value in document.values() if isinstance(value, list) and value)
    names = {*document, *values, *(name for row in rows if isinstance(row, dict) for name in row)} - {
        "schema"
    }
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []
