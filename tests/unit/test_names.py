"""A class name means one thing in the whole package."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.fixtures.sources import parsed

ROOT = Path(__file__).parents[2]
TREES = ("src/numaforge", "roles", "deploys")


def classes() -> dict[str, list[str]]:
    """Return where each class is defined, by its name without the mark of a private one."""
    found: dict[str, list[str]] = defaultdict(list)
    for tree in TREES:
        for path in sorted((ROOT / tree).rglob("*.py")):
            for node in ast.walk(parsed(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name.lstrip("_")].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_no_class_name_is_defined_twice():
    twice = {name: places for name, places in classes().items() if len(places) > 1}
    contract = twice.pop("Decided")  # the contract's name, once in each role
    assert {Path(place).name.partition(":")[0] for place in contract} == {"plan.py"}
    assert len(contract) == len({*map(Path.parent.fget, map(Path, contract))})
    assert twice == {}
