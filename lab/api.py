"""A cluster's API as its administrator sees it: objects, merge patches, watches."""

from __future__ import annotations

import http.client
import json
import select
import threading
import time
from collections.abc import Iterator
from typing import Any

from lab.controlplane import ControlPlane
from lab.errors import LabError

WATCH_SILENCE_S = 90
"""The API server sends a bookmark every minute, or so."""


class MissedChangesError(LabError):
    """The API server does not know any more what has changed since."""


class Api:
    """The API of one control plane, with a connection for each thread that asks."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self._connections = threading.local()

    def get(self, path: str) -> Any:
        """Return the API's answer to a GET."""
        return self.send("GET", path)

    def send(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> Any:
        """Return the API's answer; raise LabError for anything but success."""
        connection = self._connection()
        if connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
            connection.close()  # the API server has ended it
        text = json.dumps(body) if body is not None else None
        try:
            connection.request(method, path, text, {"Content-Type": content_type})
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LabError(f"{method} {path}: {error or type(error).__name__}") from error
        if answer.status >= 300:
            raise LabError(f"{method} {path}: {said.decode(errors='replace')}")
        return json.loads(said)

    def patch(self, path: str, body: Any) -> Any:
        """Change an object by a merge patch."""
        return self.send("PATCH", path, body, content_type="application/merge-patch+json")

    def watch(self, path: str, resource_version: str) -> Iterator[dict[str, Any]]:
        """Yield what changes from a version on, without end; a connection that ends is made anew.

        Raises MissedChangesError when the API server has forgotten what came next.
        """
        while True:
            try:
                for event in self._watch_once(path, resource_version):
                    resource_version = event["object"]["metadata"]["resourceVersion"]
                    yield event
            except MissedChangesError:
                raise
            except LabError:
                time.sleep(0.1)

    def _watch_once(self, path: str, resource_version: str) -> Iterator[dict[str, Any]]:
        connection = self.control_plane.connection(timeout_s=WATCH_SILENCE_S)
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={resource_version}"
        try:
            connection.request("GET", f"{path}?{query}")
            answer = connection.getresponse()
            if answer.status == http.HTTPStatus.GONE:
                raise MissedChangesError(f"watch {path}: {answer.read().decode(errors='replace')}")
            if answer.status != http.HTTPStatus.OK:
                raise LabError(f"watch {path}: {answer.read().decode(errors='replace')}")
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise MissedChangesError(f"watch {path}: {event['object']['message']}")
                yield event
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise LabError(f"watch {path}: {error or type(error).__name__}") from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        if not hasattr(self._connections, "own"):
            self._connections.own = self.control_plane.connection()
        own: http.client.HTTPSConnection = self._connections.own
        return own
