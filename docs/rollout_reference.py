"""Write the table of docs/rollout.md from the options' schema: `python docs/rollout_reference.py`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from numaforge.rollout.options import RolloutOptions

PAGE = Path(__file__).with_name("rollout.md")
BEGIN, END = "<!-- begin options -->", "<!-- end options -->"


def table() -> str:
    """Return every key with its default, an example, and its meaning."""
    rows = ["| key | default | example | meaning |", "| --- | --- | --- | --- |"]
    for name, field in RolloutOptions.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = f"`{json.dumps(default)}`" if default or default is False or default == 0 else "unset"
        example = json.dumps((field.examples or [None])[0])
        rows.append(f"| `{name}` | {shown} | `{example}` | {field.description} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """Return the page with its table replaced."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table()}\n{END}", text, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
