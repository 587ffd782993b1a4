"""The JSON Schemas of profiles, plans and topologies, made from the models that read them.

A schema is named by a URN, not by an address: an editor finds it by the path that a file or its own settings
give, a program by `numaforge schema`. Nothing has to be fetched from a network.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DictSchema


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a "profile", a "plan" or a "topology"."""
    body = {"profile": _profile, "plan": _plan, "topology": _topology}[name]()
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": f"urn:numaforge:{name}:1", **body}


def _profile() -> dict[str, Any]:
    from numaforge.profile import NodeProfile, ready_profiles

    body = NodeProfile.model_json_schema(schema_generator=_Generator)
    # Read while a profile is loaded, so neither is a field of the model.
    head = {
        "$schema": {
            "type": "string",
            "description": "Where an editor finds the schema; not read.",
            "examples": ["../schemas/profile.json"],
        },
        "extends": {
            "enum": [*ready_profiles(), None],
            "default": None,
            "description": "The ready profile to start from.",
            "examples": ["training"],
        },
    }
    return {**body, "properties": {**head, **body["properties"]}}


def _plan() -> dict[str, Any]:
    from numaforge.planning.document import PLAN

    return PLAN.json_schema(_Generator)


def _topology() -> dict[str, Any]:
    from numaforge.topology.document import TOPOLOGY

    return TOPOLOGY.json_schema(_Generator)


class _Generator(GenerateJsonSchema):
    """pydantic's schemas without a title for each field, and with names of keys that have to fit."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def dict_schema(self, schema: DictSchema) -> JsonSchemaValue:
        # pydantic says "keys like this have such values" and lets all others pass.
        made = super().dict_schema(schema)
        for pattern, values in made.pop("patternProperties", {}).items():
            made["propertyNames"]["pattern"] = pattern
            made["additionalProperties"] = values
        return made
