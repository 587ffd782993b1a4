"""pynvml, cut down to what the probe uses: 5 KB on the wire instead of 65, and quick to compile."""

from __future__ import annotations

import ast
import importlib.util
from itertools import takewhile
from pathlib import Path

from numaforge.errors import SnapshotError
from numaforge.snapshot import nvml_probe


def probe_source() -> str:
    """Return the probe's own source."""
    return Path(str(nvml_probe.__file__)).read_text(encoding="utf-8")


def library_source() -> str:
    """Return the source of the installed pynvml without the definitions that the probe never reaches."""
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise SnapshotError("pynvml is not installed", remedy="install the package nvidia-ml-py")
    source = Path(found.origin).read_text(encoding="utf-8")
    licence = takewhile(lambda line: line.startswith("#"), source.splitlines())
    return "\n".join((*licence, reduced(source, probe_source())))


def reduced(library: str, user: str) -> str:
    """Return `library` without the functions, classes and constants that neither it nor `user` needs.

    Error codes stay: pynvml makes its exception classes from their names when it is imported.
    """
    statements = ast.parse(library).body
    defined: dict[str, list[ast.stmt]] = {}
    needed = _names(ast.parse(user))
    for statement in statements:
        name = _defines(statement)
        if name is None:
            needed |= _names(statement)
        else:
            defined.setdefault(name, []).append(statement)
    waiting = list(needed)
    while waiting:
        for statement in defined.get(waiting.pop(), []):
            reached = _names(statement) - needed
            needed |= reached
            waiting.extend(reached)
    kept = [s for s in statements if (name := _defines(s)) is None or name in needed]
    return ast.unparse(ast.Module(kept, []))


def _defines(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return statement.name
    if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name):
        return None if target.id.startswith("NVML_ERROR_") else target.id
    return None


def _names(tree: ast.AST) -> set[str]:
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    }
