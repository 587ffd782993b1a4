"""The rules and their tests as promtool runs them, and rules that are wrong on purpose."""

import copy
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from lab import gobuild
from numaforge.fleet.monitoring import RULES, monitoring_files

FOLDER = Path(__file__).parent / "alert_rules"
Document = dict[str, Any]


def rules() -> Document:
    document: Document = yaml.safe_load(monitoring_files()[RULES])
    return document


def alerts(document: Document) -> dict[str, Document]:
    """Return each alert by its name."""
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"] if "alert" in rule}


def named(document: Document) -> dict[str, Document]:
    """Return each alert and each record by its name."""
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    return {_name(rule): rule for rule in rules}


def _name(rule: Document) -> str:
    return str(rule.get("alert", rule.get("record")))


def rule_tests() -> dict[str, list[Document]]:
    """Return the tests of each alert: the name of a test begins with it."""
    found: dict[str, list[Document]] = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        for test in yaml.safe_load(file.read_text(encoding="utf-8"))["tests"]:
            found.setdefault(test["name"].split()[0], []).append(test)
    return found


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    program = gobuild.build(gobuild.PROMTOOL) / "promtool"
    environment = {"GOGC": "400", **os.environ}  # it collects garbage less often: a fifth of its CPU time
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False)


def outcomes(folder: Path, cases: Mapping[str, tuple[Document, list[Document]]]) -> dict[str, str]:
    """Return what promtool finds wrong in each case, a document of rules with its tests; "" is nothing.

    Annotations are left out: promtool compares them whole, and these tests are about what fires. Rules that
    the alerts of the tests do not rest on are left out, too: promtool would evaluate them at each step.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, (document, tests) in enumerate(cases.values()):
        bare = copy.deepcopy(document)
        asked = {each["alertname"] for test in tests for each in test["alert_rule_test"]}
        needed = {name for name in named(bare) if resting_on(bare, name) & asked}
        for group in bare["groups"]:
            group["rules"] = [rule for rule in group["rules"] if _name(rule) in needed]
        for rule in alerts(bare).values():
            rule.pop("annotations", None)
        (folder / f"{number}-rules.yaml").write_text(yaml.safe_dump(bare))
        whole = {"rule_files": [f"{number}-rules.yaml"], "evaluation_interval": "1m", "tests": tests}
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(whole))
    names = [str(folder / f"{number}.yaml") for number in range(len(cases))]
    if not names:
        return {}
    promtool("test", "rules", f"--junit={folder / 'junit.xml'}", *names)
    junit = ElementTree.parse(folder / "junit.xml")  # noqa: S314 (promtool has just written it)
    suites = {each.get("name"): each for each in junit.iter("testsuite")}
    return {
        case: "\n".join("".join(each.itertext()) for each in _wrong(suites[name]))
        for case, name in zip(cases, names, strict=True)
    }


def _wrong(suite: ElementTree.Element) -> Iterator[ElementTree.Element]:
    for case in suite.iter("testcase"):
        yield from (each for each in case if each.tag in ("failure", "error"))


# ---- rules that are wrong on purpose ----

_HUGE = "1e18"
_COMPARISON = re.compile(r"(==|[<>]) (\d[\d.]*)\b(?! \*)")
_MATCHER = re.compile(r'\b(\w+)(=~|!~|!=|=)"')
_OPPOSITE = {"=": "!=", "!=": "=", "=~": "!~", "!~": "=~"}
_NEVER = {">": f"> {_HUGE}", "<": f"< -{_HUGE}", "==": f"== {_HUGE}"}
_ALWAYS = {">": f"> -{_HUGE}", "<": f"< {_HUGE}", "==": f"> -{_HUGE}"}


def mutants(document: Document, name: str) -> Iterator[tuple[str, Document]]:
    """Yield what is wrong with the rules, and the rules, for each way in which one rule is made wrong.

    A threshold that is never reached, or always; a label that matches the opposite; of an alert also no time
    to wait, or hours, and another severity.
    """
    rule = named(document)[name]
    changes: list[tuple[str, Document]] = [
        (what, {"expr": expr}) for what, expr in _expressions(rule["expr"])
    ]
    if "alert" in rule:
        changes += [("severity", {"labels": {"severity": "other"}}), ("waits for hours", {"for": "12h"})]
    if "for" in rule:
        changes.append(("does not wait", {"for": "0s"}))
    for what, change in changes:
        wrong = copy.deepcopy(document)
        named(wrong)[name].update(change)
        yield f"{name}: {what}", wrong


def resting_on(document: Document, name: str) -> set[str]:
    """Return the alerts whose expressions name a rule, or a record that rests on it."""
    found, asked = {name}, [name]
    while asked:
        one = asked.pop()
        new = {other for other, rule in named(document).items() if one in rule["expr"]} - found
        found |= new
        asked += new
    return found & set(alerts(document))


def _expressions(text: str) -> Iterator[tuple[str, str]]:
    for found in _COMPARISON.finditer(text):
        for kind, other in (("never", _NEVER), ("always", _ALWAYS)):
            changed = text[: found.start()] + other[found[1]] + text[found.end() :]
            yield f"`{found[0]}` at {found.start()} {kind}", changed
    for found in _MATCHER.finditer(text):
        changed = text[: found.start(2)] + _OPPOSITE[found[2]] + text[found.end(2) :]
        yield f"`{found[0]}` at {found.start()} the opposite", changed
