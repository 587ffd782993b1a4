"""Write the table of docs/rollout.md from the options' schema: `python -m docs.rollout_reference`."""

from __future__ import annotations

import json
from pathlib import Path

from docs.generated import renewed
from numaforge.rollout.options import RolloutOptions

PAGE = Path(__file__).with_name("rollout.md")


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
    return renewed(text, "options", table())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
