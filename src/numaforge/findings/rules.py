"""The rules about machines: `rules.json` has the severity and the texts of each, by id."""

import json
from pathlib import Path

from numaforge.findings.engine import Look, MachineRule, Scope
from numaforge.findings.finding import Severity

_TEXTS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def machine_rule(rule_id: str, scope: Scope, look: Look) -> MachineRule:
    """Return the rule of this id; its `machines` are those of the scope in words."""
    texts = {**_TEXTS[rule_id], "severity": Severity(_TEXTS[rule_id]["severity"])}
    return MachineRule(id=rule_id, scope=scope, look=look, **texts)
