"""A server in front of the API server on loopback, which takes requests below a path, as Rancher's does."""

import http.client
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from lab import pki
from lab.controlplane import ControlPlane
from lab.ports import LOOPBACK

UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}
"""What the API server says to a login that it does not know."""


class Front:
    """A context manager; it asks the API server as its administrator, whoever asks.

    `refuses` hears of every request (method and path) and says which ones are answered with 401 in place of
    that. `asked` lists the paths that came below `path`.
    """

    def __init__(self, control_plane: ControlPlane, folder: Path, path: str = "") -> None:
        self._control_plane = control_plane
        self._folder = folder
        self.path = path
        self.asked: list[str] = []
        self.refuses: Callable[[str, str], bool] = lambda _method, _path: False
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The server's URL for a kubeconfig."""
        return f"http://{LOOPBACK}:{self._server.server_port}{self.path}"

    @property
    def kubeconfig(self) -> Path:
        """Write the kubeconfig of a login through this server."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "front", "cluster": {"server": self.url}}],
            "users": [{"name": "somebody", "user": {"token": "known-to-the-front"}}],
            "contexts": [{"name": "front", "context": {"cluster": "front", "user": "somebody"}}],
            "current-context": "front",
        }
        path = self._folder / "front.kubeconfig"
        pki.write_private(path, yaml.safe_dump(document).encode())
        return path

    def answer(self, method: str, path: str, body: bytes, content_type: str) -> tuple[int, str, bytes]:
        """Return status, content type and body: the API server's, unless the request is refused."""
        if not path.startswith(f"{self.path}/"):
            return http.HTTPStatus.NOT_FOUND, "text/plain", b"404 page not found"
        path = path.removeprefix(self.path)
        self.asked.append(path)
        if self.refuses(method, path):
            return http.HTTPStatus.UNAUTHORIZED, "application/json", json.dumps(UNAUTHORIZED).encode()
        connection = self._control_plane.connection()
        try:
            connection.request(method, path, body or None, {"Content-Type": content_type})
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Content-Type", ""), answer.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        front = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                content_type = self.headers.get("Content-Type", "application/json")
                status, kind, text = front.answer(self.command, self.path, body, content_type)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler
