"""Write the tables of docs/profiles.md from the profile's schema: `python -m docs.profile_reference`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from docs.generated import renewed
from numaforge.planning.json_schema import json_schema
from numaforge.roles.kernel_cmdline.parameters import ACCEPTED

PAGE = Path(__file__).with_name("profiles.md")

_FORMS = {
    "quantity": "a quantity: `8Gi`, `512Mi`",
    "quantity or unlimited": "a quantity, or `unlimited`",
    "quantity or percentage": "a quantity, or a percentage from `0%` (none) to `100%`",
    "percentage": "a percentage above `0%`",
    "cpulist": "a cpulist: `0-1,64-65`",
    "device count": "a number from 1 to 64, or `all`",
    "mig-parted": "a path, or a configuration in mig-parted's form",
    "hugepage size": "a size as Kubernetes writes it: `2Mi`, `1Gi`",
    "kubelet version": '`"1.36"`, `"1.36.2"`',
    "option value": "`true`, `false`, a number",
    "IP address": "an IP address: `10.0.0.11`",
    "socket path": "the path of a socket",
    "release": "a release, such as 1.31.0.10",
    "label value": "at most 63 letters, digits, `-`, `_`, `.`",
    "DNS subdomain": "small letters, digits, `-`, `.`",
    "PCI id": "`'15b3'`, `'15b3:1021'`",
    "taint": "`KEY=VALUE:EFFECT`, `KEY:EFFECT`",
    "kernel parameter": "`NAME`, `NAME=VALUE`",
    "known kernel parameter": "a parameter of [the list](#parameters-by-purpose)",
    "risk": "what it may cost, as text",
    "sysctl value": "a number or text",
    "interface or IPv4 network": "an interface, an IPv4 network: `10.0.0.0/16`, or `default-route`",
    "RDMA device": "a name as `rdma link` has it: `mlx5_0`",
    "NCCL level": "`auto`, `LOC`, `PIX`, `PXB`, `P2C`, `PHB`, `SYS`",
    "NCCL value": "a number or text without spaces",
    "PCI address": "an address as sysfs has it: `0000:1b:00.0`",
    "topology file": "`auto`, or an absolute path",
    "kernel module": "a module's name",
    "module option": "`NAME`, `NAME=VALUE`",
    "NIC": "an RDMA device, an interface or a PCI address",
    "systemd service": "a service's whole name: `nvidia-dcgm.service`",
}


def reference() -> str:
    """Return a table per section: every key with its default, what it accepts, an example, its meaning."""
    schema = json_schema("profile")
    return "\n".join(_section(schema, title, properties) for title, properties in _sections(schema))


def parameters() -> str:
    """Return the table of the kernel parameters that need no acknowledgement, by purpose."""
    rows = (
        f"| {purpose} | {', '.join(f'`{_cell(form)}`' for form in forms)} |"
        for purpose, forms in ACCEPTED.items()
    )
    return "\n".join(("| purpose | parameters |", "| --- | --- |", *rows))


def _cell(form: str) -> str:
    """Return a form as a cell of a table holds it: alternatives are divided by a bar, which ends a cell."""
    return form.replace("|", "\\|")


def page(text: str) -> str:
    """Return the page with its tables replaced."""
    return renewed(renewed(text, "reference", reference()), "parameters", parameters())


def _sections(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (path, section's schema), sections within sections after the one that holds them."""
    yield "", schema
    for name, value in schema["properties"].items():
        yield from _below(schema, name, value)


def _below(
    schema: Mapping[str, Any], path: str, value: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    value = _set(value)
    section = _section_of(schema, value)
    if section is None:
        return
    here = f"{path}[]" if value.get("type") == "array" else path
    yield here, section
    for name, inner in section["properties"].items():
        yield from _below(schema, f"{here}.{name}", inner)


def _set(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a key that is set: null is as good as left out."""
    options = [option for option in value.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) != 1:
        return value
    return {**{name: held for name, held in value.items() if name != "anyOf"}, **options[0]}


def _section_of(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for option in (value, value.get("items", {}), *value.get("anyOf", ())):
        if "$ref" in option:
            section: Mapping[str, Any] = schema["$defs"][option["$ref"].rpartition("/")[2]]
            return section
    return None


def _section(schema: Mapping[str, Any], path: str, section: Mapping[str, Any]) -> str:
    rows = [
        _row(schema, name, value, name in section.get("required", ()))
        for name, value in section["properties"].items()
    ]
    heading = f"### `{path}`\n\n{section['description']}" if path else "### At the top"
    table = ["| key | default | accepts | example | meaning |", "| --- | --- | --- | --- | --- |", *rows]
    return "\n".join((heading, "", *table, ""))


def _row(schema: Mapping[str, Any], name: str, value: Mapping[str, Any], required: bool) -> str:
    value = _set(value)
    section = _section_of(schema, value)
    if section is None:
        accepts = _accepts(value)
    else:
        accepts = "a list of the mappings below" if value.get("type") == "array" else "the mapping below"
        words = [_kind(option) for option in value.get("anyOf", ()) if "const" in option]
        accepts = " or ".join((accepts, *words))
    example = "<br>".join(f"`{_inline(item)}`" for item in value.get("examples", ()))
    default = "must be given" if required else _default(value)
    return f"| `{name}` | {default} | {accepts} | {example or 'below'} | {value['description']} |"


def _accepts(value: Mapping[str, Any]) -> str:
    options = [option for option in value.get("anyOf", (value,)) if option.get("type") != "null"]
    return " or ".join(_kind(option) for option in options)


def _kind(option: Mapping[str, Any]) -> str:
    option = _set(option)
    if "const" in option:
        return f"`{option['const']}`"
    if "enum" in option:
        # To YAML 1.1, `off` is false.
        return ", ".join(f"`{item}`" for item in option["enum"] if item not in (None, False))
    if "format" in option:
        return _FORMS[option["format"]]
    match option["type"]:
        case "integer":
            return f"a whole number, {option['minimum']} or more"
        case "boolean":
            return "`true`, `false`"
        case "array":
            return f"a list of: {_kind(option['items'])}"
        case "object":
            names = option.get("propertyNames", {}).get("enum")
            keys = ", ".join(f"`{name}`" for name in names) if names else "names"
            return f"a mapping from {keys} to {_kind(option['additionalProperties'])}"
        case _:
            return "text"


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    return f"`{_inline(default)}`" if isinstance(default, str) and default else "unset"


def _inline(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
