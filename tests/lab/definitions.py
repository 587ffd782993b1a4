"""The systems' own CustomResourceDefinitions, served by a real API server."""

from typing import Any

from lab.kwok import Fleet

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REQUIRED_OF_CLUSTER_POLICY = (
    "operator",
    "daemonsets",
    "driver",
    "toolkit",
    "devicePlugin",
    "gfd",
    "dcgm",
    "dcgmExporter",
    "nodeStatusExporter",
)


def serve(fleet: Fleet, *definitions: dict[str, Any]) -> None:
    """Have an API server serve what systems have published, and wait until it does.

    Those that come together cost it less: it writes its own description anew after each.
    """
    for definition in definitions:
        definition["metadata"].setdefault("annotations", {})["api-approved.kubernetes.io"] = (
            "unapproved, for a test"
        )
        fleet.send("POST", DEFINITIONS, definition)
    for name in (definition["metadata"]["name"] for definition in definitions):
        fleet.wait_until(lambda name=name: is_served(fleet, name), f"{name} is not served")  # type: ignore[misc]


def withdraw(fleet: Fleet, definition: dict[str, Any]) -> None:
    """Have an API server serve what `serve` has added no more, with all objects of it."""
    group = definition["spec"]["group"]
    fleet.send("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}")
    fleet.wait_until(
        lambda: group not in {each["name"] for each in fleet.get("/apis")["groups"]},
        f"{group} is still served",
    )


def is_served(fleet: Fleet, name: str) -> bool:
    conditions = (fleet.get(f"{DEFINITIONS}/{name}").get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
