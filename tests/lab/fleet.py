"""An observer of a fleet: how many nodes were out of service together, as every watcher is told."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from lab.api import Api
from lab.errors import LabError
from lab.kwok import ZONE

NODES = "/api/v1/nodes"
LAST = "observer.test/last"


@dataclass(frozen=True)
class Moment:
    """What was out of service after one node had changed; `at` is in seconds of time.monotonic()."""

    at: float
    node: str
    out: frozenset[str]
    by_zone: dict[str, int]


class Observer:
    """A thread with a connection of its own that watches the nodes while it is entered.

    A node is out of service when it is unschedulable or not Ready. The watch names every change in the order
    in which the API server made it, so no moment is missed, however late the thread runs; when the API server
    goes away, the watch goes on from the last change when it is back.
    """

    def __init__(self, api: Api) -> None:
        self.moments: list[Moment] = []
        self._api = api
        self._version = ""
        self._zones: dict[str, str] = {}
        self._out: set[str] = set()
        self._failure: LabError | None = None
        self._thread = threading.Thread(target=self._watch, name="observer", daemon=True)

    def __enter__(self) -> Self:
        listed = self._api.get(NODES)
        self._version = listed["metadata"]["resourceVersion"]
        for node in listed["items"]:
            self._note(node)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Return when everything that has happened until now is noted: a last change is the sign."""
        self._api.patch(f"{NODES}/{min(self._zones)}", {"metadata": {"annotations": {LAST: str(id(self))}}})
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure
        if self._thread.is_alive():
            raise LabError("the observer does not hear of the last change")

    @property
    def most(self) -> Moment:
        """The moment when most nodes were out of service."""
        return max(self.moments, key=lambda moment: len(moment.out))

    @property
    def most_zones(self) -> int:
        """In how many zones nodes were out of service together, at most."""
        return max(len(moment.by_zone) for moment in self.moments)

    @property
    def order(self) -> list[str]:
        """The nodes in the order in which they first went out of service."""
        return list(dict.fromkeys(moment.node for moment in self.moments if moment.node in moment.out))

    def most_in(self, zone: str) -> int:
        """Return how many nodes of a zone were out of service together, at most."""
        return max(moment.by_zone.get(zone, 0) for moment in self.moments)

    def _watch(self) -> None:
        while True:
            try:
                for event in self._api.watch(NODES, self._version):
                    if event["type"] == "ERROR":
                        self._failure = LabError(
                            f"the observer has missed changes: {event['object']['message']}"
                        )
                        return
                    node = event["object"]
                    self._version = node["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._note(node, deleted=event["type"] == "DELETED")
                    if node["metadata"].get("annotations", {}).get(LAST) == str(id(self)):
                        return
            except LabError:  # the API server is away
                time.sleep(0.1)

    def _note(self, node: dict[str, Any], *, deleted: bool = False) -> None:
        name = node["metadata"]["name"]
        self._zones[name] = node["metadata"].get("labels", {}).get(ZONE, "")
        was_out = name in self._out
        self._out.discard(name)
        if not deleted and _out_of_service(node):
            self._out.add(name)
        if not self.moments or was_out != (name in self._out):
            by_zone = Counter(self._zones[out] for out in self._out)
            self.moments.append(Moment(time.monotonic(), name, frozenset(self._out), dict(by_zone)))


def _out_of_service(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return node["spec"].get("unschedulable", False) or not ready
