"""The JSON Schemas of profiles, plans and topologies, made from the models that read them.

A schema is named by a URN, not by an address: an editor finds it by the path in a file or its settings, a
program by `numaforge schema`. Nothing is fetched from a network.
"""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DictSchema

from numaforge.machine.topology.document import TOPOLOGY
from numaforge.planning.document import PLAN
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import machine_profiles, ready_profiles

# What a schema says of a key besides what it accepts, and what holds values of the key, not schemas.
_SAID = ("default", "description", "examples")
_PLAIN = ("default", "examples", "enum", "required")


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a "profile", a "plan" or a "topology"."""
    body = {"profile": _profile, "plan": _plan, "topology": _topology}[name]()
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": f"urn:numaforge:{name}:1", **body}


def _profile() -> dict[str, Any]:
    body = _with_nulls(NodeProfile.model_json_schema(schema_generator=_Generator))
    # Read while a profile is loaded, so neither is a field of the model.
    head = {
        "$schema": {
            "type": "string",
            "description": "Where an editor finds the schema; not read.",
            "examples": ["../schemas/profile.json"],
        },
        "extends": {
            "anyOf": [
                {"enum": [*ready_profiles(), *machine_profiles(), None]},
                {"type": "string", "pattern": r"/|\.(ya?ml|json)$"},
            ],
            "default": None,
            "description": "The profile to start from: a ready one, or a file, relative to this one.",
            "examples": ["training"],
        },
    }
    return {**body, "properties": {**head, **body["properties"]}}


def _with_nulls(schema: Any) -> Any:
    """Allow null for every optional key, as in a profile."""
    if isinstance(schema, list):
        return [_with_nulls(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    required = schema.get("required", ())
    result = {name: element if name in _PLAIN else _with_nulls(element) for name, element in schema.items()}
    if schema.get("type") != "object":
        return result
    if "properties" in schema:
        result["properties"] = {
            key: _with_nulls(element) if key in required else _or_null(_with_nulls(element))
            for key, element in schema["properties"].items()
        }
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _or_null(result["additionalProperties"])
    return result


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if {"type": "null"} in schema.get("anyOf", ()) or schema.get("type") == "null":
        return schema
    annotations = {name: element for name, element in schema.items() if name in _SAID}
    accepted = {name: element for name, element in schema.items() if name not in _SAID}
    return {"anyOf": [accepted, {"type": "null"}], **annotations}


def _plan() -> dict[str, Any]:
    return PLAN.json_schema(_Generator)


def _topology() -> dict[str, Any]:
    return TOPOLOGY.json_schema(_Generator)


class _Generator(GenerateJsonSchema):
    """pydantic's schemas without a title per field, and with patterns of keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def dict_schema(self, schema: DictSchema) -> JsonSchemaValue:
        # pydantic says "keys like this have such values" and lets all others pass.
        schema_of_dict = super().dict_schema(schema)
        for pattern, values in schema_of_dict.pop("patternProperties", {}).items():
            schema_of_dict["propertyNames"]["pattern"] = pattern
            schema_of_dict["additionalProperties"] = values
        return schema_of_dict
