"""Live objects, as kubectl gets them with its own login."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from numaforge.errors import HostUnreachableError, NumaforgeError
from numaforge.given import NotJsonError, parse_json

Identity = tuple[str, str, str, str]
"""API version, kind, namespace and name."""
_SECONDS = 120
_NOT_SERVED = re.compile(r"no matches for kind \"([^\"]+)\" in version \"([^\"]+)\"")


def identity(document: Mapping[str, Any]) -> Identity:
    """Return what tells an object from all others."""
    metadata = document["metadata"]
    return document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"]


def live_objects(
    planned: Sequence[Mapping[str, Any]],
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    kubectl: str | None = None,
) -> tuple[dict[Identity, Mapping[str, Any]], tuple[tuple[str, str], ...]]:
    """Return the objects that there are of those planned, and the versions and kinds that are not served.

    Raises HostUnreachableError where the API server cannot be asked, NumaforgeError for what kubectl
    complains of.
    """
    command = [kubectl or "kubectl", "get", "-f", "-", "-o", "json", "--show-managed-fields"]
    command += ["--ignore-not-found", "--request-timeout=60s"]
    command += [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    command += [f"--context={context}"] if context else []
    unserved: list[tuple[str, str]] = []
    while asked := [each for each in planned if (each["apiVersion"], each["kind"]) not in unserved]:
        done = _run(command, json.dumps({"apiVersion": "v1", "kind": "List", "items": asked}))
        missing = [(version, kind) for kind, version in _NOT_SERVED.findall(done.stderr)]
        if done.returncode == 0:
            return _found(done.stdout), tuple(unserved)
        if not missing:
            raise HostUnreachableError(f"kubectl cannot get the objects: {done.stderr.strip()[-500:]}")
        unserved += [each for each in dict.fromkeys(missing) if each not in unserved]
    return {}, tuple(unserved)


def _run(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except FileNotFoundError as error:
        raise NumaforgeError(
            "kubectl is not there", where=command[0], remedy="install it, or name it: --kubectl FILE"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostUnreachableError(f"kubectl does not answer: {error}", where=command[0]) from error


def _found(text: str) -> dict[Identity, Mapping[str, Any]]:
    if not text.strip():
        return {}
    try:
        document = parse_json(text)
    except NotJsonError as error:
        raise NumaforgeError(f"kubectl has printed no JSON: {error}") from error
    items = (
        document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else [document]
    )
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        raise NumaforgeError("kubectl has printed no objects")
    return {identity(each): each for each in items}
