"""The rules about machines: `rules.json` has the severity and the texts of each, by id."""

import json
from pathlib import Path

from numaforge.findings.engine import Look, MachineRule, Scope
from numaforge.findings.finding import Severity

_TEXTS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def machine_rule(rule_id: str, scope: Scope, look: Look) -> MachineRule:
    """Return the rule of this id; `machines` in its texts replaces the phrase of its scope."""
    text = _TEXTS[rule_id]
    return MachineRule(
        rule_id,
        Severity(text["severity"]),
        text["title"],
        scope._replace(machines=text.get("machines", scope.machines)),
        text["source"],
        text["remedy"],
        look,
    )
