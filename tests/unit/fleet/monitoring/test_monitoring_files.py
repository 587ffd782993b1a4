"""What is written for Prometheus and Grafana is complete, of known metrics, and current."""

import csv
import json
import re
from collections.abc import Iterator

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel, RowPanel
from jsonschema import Draft202012Validator

from docs import dashboard
from numaforge.cli import run
from numaforge.findings.gpus import xids
from numaforge.fleet.monitoring import COUNTERS, RULES, monitoring_files
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import plan_files
from numaforge.roles.watch.files import WATCH_CONF_PATH, WATCH_SCRIPT_PATH
from tests.fixtures.crd_schemas import SCHEMAS, strict
from tests.fixtures.tables import cases

FILES = monitoring_files()
RECORDS = [rule for group in yaml.safe_load(FILES[RULES])["groups"] for rule in group["rules"]]
BOARD = json.loads(FILES["dashboard.json"])
QUERIES = {
    **{rule.get("alert", rule.get("record")): rule["expr"] for rule in RECORDS},
    **{
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in BOARD["panels"]
        for target in panel.get("targets", ())
    },
}

WATCHED = {
    "name": "watched",
    "hugepages": [{"size": "1Gi", "count_per_numa_node": 8}],
    "system": {"daemons": "reserved"},
    "watch": {"enabled": True},
}
WATCH = {
    "numaforge_plan_info": {"node", "plan", "cpu_manager_policy"},
    "numaforge_plan_allocatable": {"node", "resource", "unit"},
    "numaforge_plan_reserved_cpu": {"node", "cpu", "numa"},
    "numaforge_plan_gpu": {"node", "UUID", "pci_bus_id", "numa"},
    "numaforge_plan_hugepages": {"node", "numa", "size"},
    "numaforge_hugepages_actual": {"node", "numa", "size"},
    "numaforge_plan_drift": {"node", "what"},
    "numaforge_watch_unreadable": {"node", "what"},
    "numaforge_watch_last_run_timestamp_seconds": {"node"},
    "numaforge_reserved_cpu_pressure_seconds_total": {"node", "cgroup", "kind"},
}
"""What the rules and the dashboard take of the watch of a node: metrics and their labels."""
KUBELET = {
    "kubelet_admission_rejections_total",
    "kubelet_cpu_manager_allocation_per_numa",
    "kubelet_cpu_manager_exclusive_cpu_allocation_count",
    "kubelet_cpu_manager_pinning_errors_total",
    "kubelet_cpu_manager_shared_pool_size_millicores",
    "kubelet_memory_manager_pinning_errors_total",
    "kubelet_node_name",
    "kubelet_topology_manager_admission_errors_total",
    "kubelet_topology_manager_admission_requests_total",
    "container_pressure_cpu_waiting_seconds_total",
}
STATE_METRICS = {"kube_node_info", "kube_node_status_allocatable", "kube_pod_owner"}
NODE_EXPORTER = {"node_cpu_seconds_total"}


def rows() -> list[list[str]]:
    """Return the fields of the counters file as Go's encoding/csv reads them."""
    lines = [line for line in FILES[COUNTERS].splitlines() if line and not line.startswith("#")]
    return [[cell.lstrip() for cell in row] for row in csv.reader(lines, skipinitialspace=True)]


def amd_metrics() -> set[str]:
    config = json.loads(FILES["amd/config.json"])
    prefix = config["CommonConfig"]["MetricsFieldPrefix"]
    return {f"{prefix}{field.lower()}" for field in config["GPUConfig"]["Fields"]}


def metrics(query: str) -> set[str]:
    """Return the names of series in a query: what is neither a function, a keyword nor a label."""
    bare = re.sub(r'"[^"]*"', '""', query)
    bare = re.sub(r"\{[^{}]*\}|\[[^\]]*\]", " ", bare)
    bare = re.sub(r"\b(by|on|group_left|without|ignoring) *\([^)]*\)", " ", bare)
    names = re.findall(r"(?<![\w:.])([a-zA-Z_][\w:]*)\b(?! *\()", bare)
    return {name for name in names if name not in ("and", "or", "unless", "offset", "m", "h")}


def strings(document: object) -> Iterator[str]:
    if isinstance(document, dict):
        for each in document.values():
            yield from strings(each)
    elif isinstance(document, list):
        for each in document:
            yield from strings(each)
    elif isinstance(document, str):
        yield document


@pytest.mark.parametrize("name", QUERIES)
def test_every_queried_metric_has_a_known_source(name):
    recorded = {rule["record"] for rule in RECORDS if "record" in rule}
    counters = {row[0] for row in rows() if row[1] != "label"}
    known = set(WATCH) | KUBELET | STATE_METRICS | NODE_EXPORTER | amd_metrics() | counters | recorded
    assert metrics(QUERIES[name])
    assert metrics(QUERIES[name]) - known == set()


def test_node_watch_writes_the_documented_metrics_and_labels():
    plan = plan_node(ready_machine("dgx-h100"), load_profile(WATCHED))
    texts = {file.path: file.text for file in plan_files(plan)}
    found: dict[str, set[str]] = {}
    for path in (WATCH_CONF_PATH, WATCH_SCRIPT_PATH):
        for name, labels in re.findall(r"\b(numaforge_\w+)\{([^}\n]*)", texts[path]):
            found.setdefault(name, set()).update(re.findall(r"(\w+)=", labels))
    assert {name: found.get(name) for name in WATCH} == WATCH


def test_counter_row_is_field_type_and_help_without_commas():
    assert {len(row) for row in rows()} == {3}
    assert {row[1] for row in rows()} <= {"gauge", "counter", "label"}
    assert '"' not in FILES[COUNTERS]
    names = [row[0] for row in rows()]
    assert len(names) == len(set(names))


def test_rates_apply_only_to_counters():
    counted = {row[0] for row in rows() if row[1] == "counter"}
    for query in QUERIES.values():
        found = re.findall(r"\b(?:rate|increase)\((DCGM_\w+)", query)
        assert set(found) <= counted


def test_chart_values_contain_all_counters():
    assert yaml.safe_load(FILES["nvidia/values.yaml"])["customMetrics"] == FILES[COUNTERS]


@cases(
    "name, path",
    {
        "the-chart-of-dcgm-exporter": ("nvidia/values.yaml", ("serviceMonitor",)),
        "the-gpu-operator": ("nvidia/clusterpolicy.yaml", ("spec", "dcgmExporter", "serviceMonitor")),
        "the-chart-of-amd": ("amd/values.yaml", ("serviceMonitor",)),
        "the-gpu-operator-of-amd": (
            "amd/deviceconfig.yaml",
            ("spec", "metricsExporter", "prometheus", "serviceMonitor"),
        ),
    },
)
def test_every_monitor_keeps_gpu_pod_labels_and_names_the_node(name, path):
    monitor = yaml.safe_load(FILES[name])
    for key in path:
        monitor = monitor[key]
    assert monitor.get("enabled", monitor.get("enable"))  # AMD's operator has its own word
    assert monitor["honorLabels"]
    dropped = re.compile(monitor["relabelings"][0]["regex"])
    assert all(dropped.fullmatch(label) for label in ("pod", "namespace", "container"))
    named = {
        each["targetLabel"]: each["sourceLabels"] for each in monitor["relabelings"] if "targetLabel" in each
    }
    assert named["node"] == ["__meta_kubernetes_pod_node_name"]


def test_alert_codes_match_the_table():
    fatal, other = (rule["expr"] for rule in RECORDS if rule.get("alert") in ("GpuXidFatal", "GpuXid"))
    codes = {*xids.FATAL}
    assert {int(code) for code in re.findall(r"\d+", fatal.partition("[")[0])} == codes
    left_out = {int(code) for code in re.findall(r"\d+", other.partition("[")[0])}
    assert left_out == {*xids.FATAL, *xids.APPLICATION, *xids.IGNORED, xids.NONE_YET}


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        pytest.param({46, 79, 109, 143, 151, 155, 158}, xids.FATAL, id="reset it, or more"),
        pytest.param(
            {8, 32, 60, 75, 80, 82, 86, 96, 105, 137, 139}, xids.APPLICATION, id="restart the application"
        ),
        pytest.param({63, 106, 107}, xids.IGNORED, id="nothing to do"),
    ],
)
def test_codes_follow_the_first_action_of_nvidias_catalogue(codes, expected):
    assert codes <= expected.keys()


def test_no_placeholder_remains():
    assert [name for name, text in FILES.items() if re.search(r"@[a-z-]+@", text)] == []


# ---- the dashboard ----


def test_the_dashboard_is_current():
    assert dashboard.document() == BOARD


def lost(before: object, after: object, where: str = "") -> list[str]:
    """Return the places of a document that another one does not have, defaults beside them left out."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [one for key in before for one in lost(before[key], after.get(key), f"{where}/{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            one
            for number, pair in enumerate(zip(before, after, strict=True))
            for one in lost(*pair, f"{where}/{number}")
        ]
    return [] if before == after else [where]


def test_grafana_types_accept_every_dashboard_field():
    """What they do not know is lost on the way through them."""
    register_default_plugins()
    read = Dashboard.from_json(BOARD)
    again = json.loads(json.dumps(read, cls=JSONEncoder))
    assert lost(BOARD, again) == []
    kinds = {type(each) for each in read.panels or ()}
    assert kinds == {Panel, RowPanel}


def test_panels_do_not_overlap():
    taken = [
        (each["gridPos"]["x"] + x, each["gridPos"]["y"] + y)
        for each in BOARD["panels"]
        for x in range(each["gridPos"]["w"])
        for y in range(each["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert {x for x, _ in taken} <= set(range(24))
    assert len({each["id"] for each in BOARD["panels"]}) == len(BOARD["panels"])


def test_dashboard_defines_exactly_the_variables_its_queries_use():
    defined = {each["name"] for each in BOARD["templating"]["list"]}
    used = {name for text in strings(BOARD["panels"]) for name in re.findall(r"\$\{?(\w+)", text)}
    assert used == defined


# ---- the command ----


def test_the_command_writes_every_file(tmp_path):
    assert run(["generate", "monitoring", "--to", str(tmp_path / "made")]) == ExitCode.YES
    found = {str(path.relative_to(tmp_path / "made")) for path in (tmp_path / "made").rglob("*.*")}
    assert found == set(FILES)
    assert (tmp_path / "made" / RULES).read_text() == FILES[RULES]


def test_command_prints_all_files_as_json(capsys):
    assert run(["generate", "monitoring", "-o", "json"]) == ExitCode.YES
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "files": FILES}


def test_every_alert_links_to_the_published_runbook(tmp_path):
    address = "https://wiki.example.com/gpu-alerts?v=1"
    assert run(["generate", "monitoring", "--runbooks", address, "--to", str(tmp_path)]) == ExitCode.YES
    links = [text for text in strings(yaml.safe_load((tmp_path / RULES).read_text())) if "#" in text]
    alerts = [rule["alert"] for rule in RECORDS if "alert" in rule]
    assert links == [f"{address}#{name.lower()}" for name in alerts]


@pytest.mark.parametrize("address", ["it's", "a b", "a#b", "{{ 1 }}", "a\nb", '"'])
def test_address_that_would_break_the_file_is_refused(address, capsys):
    assert run(["generate", "monitoring", "--runbooks", address]) == ExitCode.BAD_INPUT
    assert "is not a URL" in capsys.readouterr().err


def test_unwritable_folder_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["generate", "monitoring", "--to", str(tmp_path / "file")]) == ExitCode.BAD_INPUT
    assert "cannot be written" in capsys.readouterr().err


# ---- what others publish, where it is to be had here ----


def test_gpu_operator_schema_accepts_every_field():
    if not SCHEMAS.is_dir():
        pytest.skip("the operator's schema is not here")
    definition = yaml.safe_load((SCHEMAS / "gpu-operator-clusterpolicies.yaml").read_text())
    whole = strict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema = whole["properties"]["spec"]["properties"]["dcgmExporter"]
    settings = yaml.safe_load(FILES["nvidia/clusterpolicy.yaml"])["spec"]["dcgmExporter"]
    assert [error.message for error in Draft202012Validator(schema).iter_errors(settings)] == []


def test_counter_types_match_the_default_list_of_dcgm_exporter():
    """Of its own inventions (DCGM_EXP) the type is not looked at there: they are counts of a window."""
    if not SCHEMAS.is_dir():
        pytest.skip("the exporter's list is not here")
    lines = (SCHEMAS / "dcgm-default-counters.csv").read_text().splitlines()
    listed = [[cell.strip() for cell in line.lstrip("# ").split(",")] for line in lines if "DCGM_FI" in line]
    types = {row[0]: row[1] for row in listed if len(row) > 1}
    ours = {row[0]: row[1] for row in rows() if row[0] in types}
    assert ours == {name: types[name] for name in ours}
    assert len(ours) > 15
