"""The alerts that users install: each fires and stays silent in promtool's tests, and leads to its page.

What promtool says is long: to compile it takes two minutes of CPU time.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from lab.paths import REPOSITORY
from numaforge.fleet.monitoring import PROMETHEUS_RULE, monitoring_files
from tests.lab.promtool import (
    FOLDER,
    alerts,
    mutants,
    named,
    outcomes,
    promtool,
    resting_on,
    rule_tests,
    rules,
)

RULES, TESTS = rules(), rule_tests()
ALERTS = alerts(RULES)


def test_every_alert_has_a_firing_and_a_silent_test() -> None:
    kinds = {name: {test["name"].split()[1] for test in tests} for name, tests in TESTS.items()}
    assert kinds == {name: {"fires:", "silent:"} for name in ALERTS}


@pytest.mark.parametrize("name", ALERTS)
def test_alert_tests_cover_their_own_alert_as_named(name: str) -> None:
    for test in TESTS[name]:
        told = test["alert_rule_test"]
        assert {each["alertname"] for each in told} == {name}
        assert any(each["exp_alerts"] for each in told) == (test["name"].split()[1] == "fires:")


@pytest.mark.long
def test_promtool_passes_the_tests_of_every_alert(tmp_path: Path) -> None:
    found = outcomes(tmp_path, {name: (RULES, tests) for name, tests in TESTS.items()})
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.long
def test_promtool_lint_passes(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(monitoring_files()["rules.yaml"])
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(tmp_path / "rules.yaml"))
    assert done.returncode == 0, done.stderr


MUTABLE = [name for name in named(RULES) if next(mutants(RULES, name), None)]


@pytest.mark.long
@pytest.mark.parametrize("name", MUTABLE)
def test_mutated_rule_fails_the_tests_of_its_alerts(name: str, tmp_path: Path) -> None:
    """Most fail where it has to fire: only what does is tried where it has to be silent."""
    tests = [test for alert in resting_on(RULES, name) for test in TESTS[alert]]
    unnoticed = dict(mutants(RULES, name))
    for kind in ("fires:", "silent:"):
        some = [test for test in tests if test["name"].split()[1] == kind]
        found = outcomes(tmp_path / kind, {what: (document, some) for what, document in unnoticed.items()})
        unnoticed = {what: document for what, document in unnoticed.items() if not found[what]}
    assert list(unnoticed) == []


@pytest.mark.parametrize("name", ALERTS)
def test_annotations_use_only_labels_of_their_alert(name: str) -> None:
    used = set(re.findall(r"\$labels\.(\w+)", str(ALERTS[name]["annotations"])))
    told = [alert for test in TESTS[name] for each in test["alert_rule_test"] for alert in each["exp_alerts"]]
    assert used <= {label for alert in told for label in alert["exp_labels"]}


def test_prometheus_rule_object_has_the_same_rules() -> None:
    assert yaml.safe_load(monitoring_files()[PROMETHEUS_RULE])["spec"] == RULES


@pytest.mark.long
def test_prometheus_configuration_is_valid(tmp_path: Path) -> None:
    files = monitoring_files()
    for name in ("prometheus.yaml", "rules.yaml"):
        (tmp_path / name).write_text(files[name])
    done = promtool("check", "config", "--syntax-only", str(tmp_path / "prometheus.yaml"))
    assert done.returncode == 0, done.stderr


def test_each_alert_has_one_section_and_each_section_one_alert() -> None:
    page = (REPOSITORY / "docs" / "alerts.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == list(ALERTS)
    links = {name: alert["annotations"]["runbook_url"] for name, alert in ALERTS.items()}
    assert links == {name: f"alerts.md#{name.lower()}" for name in ALERTS}


@pytest.mark.long
def test_every_dashboard_query_returns_node_data(tmp_path: Path) -> None:
    """As an alert each, which fires where the query has an answer; Grafana's variables match everything."""
    panels = json.loads(monitoring_files()["dashboard.json"])["panels"]
    queries = {
        f"{panel['title']} {target['refId']}": re.sub(r"\$\w+", ".*", target["expr"])
        for panel in panels
        for target in panel.get("targets", ())
    }
    lines = (FOLDER / "dashboard.series").read_text(encoding="utf-8").splitlines()
    series = [line.rpartition("} ") for line in lines if not line.startswith("#")]
    document = rules()
    document["groups"].append(
        {
            "name": "dashboard",
            "rules": [{"alert": name, "expr": f"count({q})"} for name, q in queries.items()],
        }
    )
    test = {
        "interval": "1m",
        "input_series": [{"series": f"{name}}}", "values": values} for name, _, values in series],
        "alert_rule_test": [
            {"eval_time": "80m", "alertname": name, "exp_alerts": [{"exp_labels": {}}]} for name in queries
        ],
    }
    assert outcomes(tmp_path, {"dashboard": (document, [test])}) == {"dashboard": ""}
    assert len(queries) > 30
