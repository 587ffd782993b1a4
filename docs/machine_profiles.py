"""Write the table of profiles by machine into docs/machine-profiles.md: `python -m docs.machine_profiles`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from docs.generated import renewed
from numaforge.lib.quantity import format_bytes
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import leaves, load_profile
from numaforge.roles.kubelet.largest_pods import LargestPod
from tests.fixtures.profile_machines import EXAMPLES
from tests.machines.facts import KUBELET_VERSION

_ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("machine-profiles.md")


def page(text: str) -> str:
    """Return the page with its tables renewed."""
    return renewed(text, "profiles", "\n".join(_section(name) for name in EXAMPLES))


def _section(name: str) -> str:
    text = (_ROOT / "profiles" / "machines" / f"{name}.yaml").read_text(encoding="utf-8")
    own, why = yaml.safe_load(text), reasons(text)
    sources = own.pop("sources")
    above = {key: own.pop(key) for key in ("name", "description", "extends")}
    rows = [
        f"| `{path}` | {_value(value)} | {why[path]} | {sources.get(path, '[reserved.md](reserved.md)')} |"
        for path, value in leaves(own)
    ]
    pods = [f"| {machine} | {_largest(name, machine)} |" for machine in EXAMPLES[name]]
    return "\n".join(
        [
            f"### `{name}`\n\n{above['description']}. Extends `{above['extends']}`.\n",
            "| sets | to | why | source |\n| --- | --- | --- | --- |",
            *rows,
            "\n| example | largest pod of one container |\n| --- | --- |",
            *pods,
            "",
        ]
    )


def reasons(text: str) -> dict[str, str]:
    """Return the comment above each key of a profile, by the key's dotted path."""
    found: dict[str, str] = {}
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        key = re.match(r"(?P<indent> *)(?P<name>[\w-]+):", line)
        if line.lstrip().startswith("#"):
            comment.append(line.lstrip(" #"))
        elif key:
            path = [*path[: len(key["indent"]) // 2], key["name"]]
            if comment:
                found[".".join(path)] = " ".join(comment)
            comment = []
        else:
            comment = []
    return found


def _value(value: Any) -> str:
    if value is None:
        return "unset: as the machine needs"
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _largest(profile: str, machine: str) -> str:
    plan = plan_node(EXAMPLES[profile][machine](), load_profile(profile), KUBELET_VERSION)
    return _pod(plan.largest_pods[-1])


def _pod(pod: LargestPod) -> str:
    devices = f"{pod.devices} {pod.resource}, " if pod.resource else ""
    return f"{devices}{pod.cpus} CPUs, {format_bytes(pod.memory_bytes)}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
