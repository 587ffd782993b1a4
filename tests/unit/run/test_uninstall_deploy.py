"""What deploys/site.py has done to a node is taken back by the same roles, in the same maintenance."""

import ast

from lab.paths import REPOSITORY


def calls(deploy: str) -> list[str | list[str]]:
    """Return what a deploy calls, line by line; what stands in a `with` block is a list."""
    statements = ast.parse((REPOSITORY / "deploys" / deploy).read_text(encoding="utf-8")).body
    return [called for statement in statements if (called := _called(statement))]


def _called(statement: ast.stmt) -> str | list[str]:
    match statement:
        case ast.Expr(ast.Call(ast.Name(name))):
            return name
        case ast.With(items=[ast.withitem(ast.Call(ast.Name("maintenance")))], body=body):
            return [name for inner in body if isinstance(name := _called(inner), str)]
        case _:
            return ""


def test_uninstall_calls_every_role_of_site():
    plan, maintenance = calls("site.py")
    assert (plan, bool(maintenance)) == ("topology", True)
    assert calls("uninstall.py") == ["removal", maintenance, "forget"]
