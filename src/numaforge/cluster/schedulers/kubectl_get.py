"""Live objects, as kubectl gets them with its own login."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numaforge.cluster.schedulers import gangs
from numaforge.lib.errors import HostUnreachableError, NumaforgeError
from numaforge.lib.given import NotJsonError, mapping, mappings, parse_json

Identity = tuple[str, str, str, str]
"""API version, kind, namespace and name."""
_SECONDS = 120
_LOGGED = re.compile(r"[IWE]\d{4} ")
_NO_SUCH_RESOURCE = "the server doesn't have a resource type"
_NOT_FOUND = "(NotFound)"
_SLICES = "resourceslices.resource.k8s.io"
_TAINT_RULES = "devicetaintrules.resource.k8s.io"
_CLAIMS = ",".join(
    f"{plural}.resource.k8s.io"
    for plural in ("resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses")
)
_NOT_SERVED = re.compile(r"no matches for kind \"([^\"]+)\" in version \"([^\"]+)\"")


def identity(document: Mapping[str, Any]) -> Identity:
    metadata = document["metadata"]
    return document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"]


@dataclass(frozen=True)
class Kubectl:
    """A kubectl with its own login: kubectl decides where an option is None, the PATH for the program.

    Every query raises HostUnreachableError where the API server cannot be reached, and NumaforgeError for
    kubectl's own errors.
    """

    kubeconfig: str | None = None
    context: str | None = None
    kubectl: str | None = None

    def live_objects(
        self, planned: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[Identity, Mapping[str, Any]], tuple[tuple[str, str], ...]]:
        """Return those of the planned objects that exist, and the versions and kinds not served."""
        options = ("get", "-f", "-", "-o", "json", "--show-managed-fields", "--ignore-not-found")
        unserved: list[tuple[str, str]] = []
        while queried := [
            document for document in planned if (document["apiVersion"], document["kind"]) not in unserved
        ]:
            done = self._run(
                *options, text=json.dumps({"apiVersion": "v1", "kind": "List", "items": queried})
            )
            missing = [(version, kind) for kind, version in _NOT_SERVED.findall(done.stderr)]
            if done.returncode == 0:
                live = {identity(document): document for document in _objects(done.stdout)}
                return live, tuple(unserved)
            if not missing:
                raise HostUnreachableError(f"kubectl cannot get the objects: {_message_of(done.stderr)}")
            unserved += [kind for kind in dict.fromkeys(missing) if kind not in unserved]
        return {}, tuple(unserved)

    def listed(self, resources: str) -> tuple[Mapping[str, Any], ...]:
        """Return all objects of some resources in all namespaces, e.g. `nodes,pods`."""
        return self._served(resources, "-A") or ()

    def resource_slices(self) -> tuple[Mapping[str, Any], ...] | None:
        """Return the ResourceSlices of all drivers, with their writers; None where not served."""
        return self._served(_SLICES, "--show-managed-fields")

    def claim_objects(self) -> tuple[Mapping[str, Any], ...] | None:
        """Return the objects that decide claims, with DeviceTaintRules if served; None where not served."""
        for resources in (f"{_CLAIMS},{_TAINT_RULES}", _CLAIMS):
            if (documents := self._served(resources, "-A")) is not None:
                return documents
        return None

    def gang_version(self) -> str:
        """Return the best served version of Kubernetes' own PodGroup; empty without one."""
        for version in gangs.VERSIONS:
            done = self._run("get", "--raw", f"/apis/{gangs.GROUP}/{version}")
            if done.returncode == 0:
                served = mappings(mapping(_parsed(done.stdout)).get("resources"))
                if any(resource.get("name") == "podgroups" for resource in served):
                    return version
            elif _NOT_FOUND not in done.stderr:
                raise HostUnreachableError(f"kubectl cannot ask for {version}: {_message_of(done.stderr)}")
        return ""

    def _served(self, resources: str, option: str) -> tuple[Mapping[str, Any], ...] | None:
        """Return the objects of some resources; None where the cluster does not serve one of them."""
        done = self._run("get", resources, option, "-o", "json")
        if done.returncode == 0:
            return _objects(done.stdout)
        if _NO_SUCH_RESOURCE in done.stderr:
            return None
        raise HostUnreachableError(f"kubectl cannot get {resources}: {_message_of(done.stderr)}")

    def _run(self, *asked_for: str, text: str = "") -> subprocess.CompletedProcess[str]:
        program = self.kubectl or "kubectl"
        command = [program, *asked_for, "--request-timeout=60s"]
        command += [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        command += [f"--context={self.context}"] if self.context else []
        try:
            return subprocess.run(
                command, input=text, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except FileNotFoundError as error:
            raise NumaforgeError(
                "kubectl is not there", where=program, remedy="install it, or name it: --kubectl FILE"
            ) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostUnreachableError(f"kubectl does not answer: {error}", where=program) from error


def _message_of(errors: str) -> str:
    """Return kubectl's error message, without the log of its attempts."""
    lines = errors.strip().splitlines()
    return "\n".join([line for line in lines if not _LOGGED.match(line)] or lines)[-500:]


def items_of(document: object) -> tuple[Mapping[str, Any], ...]:
    """Return the objects of a List, or the one object; raises NumaforgeError for anything else."""
    items = (
        document.get("items")
        if isinstance(document, dict) and str(document.get("kind", "")).endswith("List")
        else [document]
    )
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise NumaforgeError("holds no objects", remedy="give what `kubectl get ... -o json` prints")
    return tuple(items)


def _objects(text: str) -> tuple[Mapping[str, Any], ...]:
    return items_of(_parsed(text)) if text.strip() else ()


def _parsed(text: str) -> object:
    try:
        return parse_json(text)
    except NotJsonError as error:
        raise NumaforgeError(f"kubectl has printed no JSON: {error}") from error
