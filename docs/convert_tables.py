"""Write what becomes of each field into docs/convert.md: `python -m docs.convert_tables`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from docs.generated import renewed
from numaforge.planning.convert.eks import BOTTLEROCKET_ROWS
from numaforge.planning.convert.forms import FORMS
from numaforge.planning.convert.kubelet_configuration import KUBELET_ROWS
from numaforge.planning.convert.rows import FieldRow

PAGE = Path(__file__).with_name("convert.md")
# Rows that other tables repeat further down in their files are listed once.
_LISTED_ONCE = {
    "[a KubeletConfiguration](#a-kubeletconfiguration)": {row.field: row for row in KUBELET_ROWS},
    "[settings of Bottlerocket](#settings-of-bottlerocket)": {row.field: row for row in BOTTLEROCKET_ROWS},
}


def page(text: str) -> str:
    """Return the page with its tables renewed."""
    return renewed(text, "fields", "\n\n".join(_tables()))


def _tables() -> Iterator[str]:
    for form in FORMS:
        yield f"### {form.called[0].upper()}{form.called[1:]}"
        yield _table(form.rows)
        heading, extra = form.extra
        if extra:
            yield _table(extra, heading)


def _table(rows: Sequence[FieldRow], heading: str = "field") -> str:
    repeated = {row.field: _repeated(row) for row in rows}
    lines = [f"| {heading} | what becomes of it | key | what is different, or why |", "|---|---|---|---|"]
    for prefix, link in dict.fromkeys(filter(None, repeated.values())):
        lines.append(f"| `{prefix}.*` | as for {link} | | |")
    own = (row for row in rows if repeated[row.field] is None)
    for _, alike in groupby(own, key=lambda row: (row.fate, row.key, row.why)):
        group = list(alike)
        said = group[0]
        key = f"`{said.key}`" if said.key else ""
        fields = ", ".join(f"`{row.field}`" if heading == "field" else row.field for row in group)
        cells = (fields, said.fate, key, said.why)
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines)


def _repeated(row: FieldRow) -> tuple[str, str] | None:
    """Return below which field the rows of another table are repeated, and which, if this is one of them."""
    parts = row.field.split(".")
    for prefix in (".".join(parts[:count]) for count in range(1, len(parts))):
        for link, listed in _LISTED_ONCE.items():
            original = listed.get(row.field.removeprefix(f"{prefix}."))
            if original and (original.fate, original.key, original.why) == (row.fate, row.key, row.why):
                return prefix, link
    return None


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
