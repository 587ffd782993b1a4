"""The API server through the kubelet's login, which may change only its own Node."""

import base64
import binascii
import http.client
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from numaforge.image.first_boot.trial import ask
from numaforge.lib import shell
from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.lib.framing import asking
from numaforge.lib.given import NotJsonError, parse_json, read_text
from numaforge.lib.strict_yaml import read_yaml

_SECONDS = 20
_MOST_BYTES = 8 << 20
"""More than etcd's limit for one object."""
_MERGE, _STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


class NoSuchObjectError(HostUnreachableError):
    """The API server has no such object."""


@dataclass(frozen=True)
class KubeletLogin:
    """The API server's address and the kubelet's credentials there; `token` is "" with a certificate."""

    host: str
    port: int
    path: str
    tls: ssl.SSLContext
    token: str = ""

    def node(self, name: str) -> dict[str, Any]:
        """Return a Node; raises HostUnreachableError where the API server does not answer or has none."""
        return self._ask("GET", _path(name))

    def renewed_at(self, name: str) -> str:
        """Return when the kubelet last renewed its Node's lease, "" before the first time."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{quote(name, safe='')}"
        try:
            lease = self._ask("GET", path)
        except NoSuchObjectError:
            return ""
        return str((lease.get("spec") or {}).get("renewTime") or "")

    def annotate(self, name: str, annotations: Mapping[str, str]) -> None:
        self._ask("PATCH", _path(name), {"metadata": {"annotations": dict(annotations)}}, _MERGE)

    def set_condition(self, name: str, condition: Mapping[str, str]) -> None:
        """Set a condition of a Node, and leave the others unchanged."""
        self._ask("PATCH", f"{_path(name)}/status", {"status": {"conditions": [dict(condition)]}}, _STRATEGIC)

    def _ask(self, method: str, path: str, patch: object = None, kind: str = "") -> dict[str, Any]:
        headers = {"Accept": "application/json", **({"Content-Type": kind} if kind else {})}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        where = f"{self.host}:{self.port}"
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=_SECONDS, context=self.tls)
        try:
            body = json.dumps(patch) if patch is not None else None
            connection.request(method, self.path + path, body, headers)
            answer = connection.getresponse()
            text = answer.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise HostUnreachableError(f"the API server does not answer: {error}", where=where) from error
        finally:
            connection.close()
        try:
            document = parse_json(text.decode("utf-8", "replace"))
        except NotJsonError:
            document = None
        if answer.status >= 300 or not isinstance(document, dict):
            message = document.get("message", "") if isinstance(document, dict) else ""
            error_class = NoSuchObjectError if answer.status == HTTPStatus.NOT_FOUND else HostUnreachableError
            raise error_class(f"the API server refuses: {message} ({answer.status})", where=where)
        return document


def require_roots(file: Path) -> None:
    """Raise HostError for a file that another user could write, or redirect by a folder or a link."""
    try:
        ask(asking(shell.library("node/paths") + shell.call("is_roots_file", [str(file.absolute())])))
    except HostError as error:
        raise HostError(
            f"is not read as root: {error.message}",
            where=str(file),
            remedy="give it, and its folders, to root alone",
        ) from error


def kubelet_login(file: Path) -> KubeletLogin:
    """Read a kubelet's kubeconfig: certificate, token and program of its current context.

    Root reads its files and runs its program. Raises HostError for unreadable or unusable ones, and for a
    file that another user could write.
    """
    require_roots(file)
    document = _mapping(read_yaml(read_text(file, error=HostError), str(file)), file, "a kubeconfig")
    context = _entry_named(document, "contexts", "context", document.get("current-context"), file)
    cluster = _entry_named(document, "clusters", "cluster", context.get("cluster"), file)
    user = _entry_named(document, "users", "user", context.get("user"), file)
    if "exec" in user:
        user = {**user, **_credential(_mapping(user["exec"], file, "users.user.exec"), file)}
    url = urlsplit(str(cluster.get("server", "")))
    if url.scheme != "https" or not url.hostname:
        raise HostError(f"the server {cluster.get('server')!r} is not an https address", where=str(file))
    try:
        tls = _tls(cluster, user, file.parent)
        port = url.port or 443
    except (OSError, ValueError) as error:
        raise HostError(f"the kubelet's login cannot be used: {error}", where=str(file)) from error
    token = str(user.get("token") or "")
    if not token and (token_file := user.get("tokenFile")):
        token = read_text(file.parent / str(token_file), error=HostError).strip()
    return KubeletLogin(url.hostname, port, url.path.rstrip("/"), tls, token)


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    """Return the TLS context of a connection; raises OSError or ValueError for what cannot be read."""
    authority = _pem(cluster, "certificate-authority", folder)
    tls = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    if authority:  # newer defaults reject certificates that API servers may have
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    certificate = _pem(user, "client-certificate", folder)
    if certificate:
        key = _pem(user, "client-key", folder)
        with tempfile.NamedTemporaryFile(prefix="numaforge-") as pair:  # OpenSSL reads it only from a file
            pair.write(certificate + b"\n" + (key or b""))
            pair.flush()
            tls.load_cert_chain(pair.name)
    return tls


def _pem(of: Mapping[str, Any], name: str, folder: Path) -> bytes | None:
    if data := of.get(f"{name}-data"):
        try:
            return base64.b64decode(str(data), validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}-data is not base64") from error
    return (folder / str(of[name])).read_bytes() if of.get(name) else None


def _credential(program: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Ask the program of a kubeconfig for a credential, as client-go does (client.authentication.k8s.io)."""
    version = str(program.get("apiVersion", ""))
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    variables = {variable["name"]: str(variable["value"]) for variable in program.get("env") or ()}
    command = [str(program.get("command", "")), *map(str, program.get("args") or ())]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise HostUnreachableError(f"{command[0]} gives no credential: {error}", where=str(file)) from error
    try:
        status = parse_json(done.stdout).get("status") if done.returncode == 0 else None
    except (NotJsonError, AttributeError):
        status = None
    if not isinstance(status, dict):
        why = done.stderr.strip()[-300:] or f"it ended with {done.returncode}"
        raise HostUnreachableError(f"{command[0]} gives no credential: {why}", where=str(file))
    pair = {"client-certificate-data": "clientCertificateData", "client-key-data": "clientKeyData"}
    pems = {key: str(status[status_key]) for key, status_key in pair.items() if status.get(status_key)}
    coded = {name: base64.b64encode(pem.encode()).decode() for name, pem in pems.items()}
    return {**coded, "token": status.get("token") or ""}


def _entry_named(
    document: Mapping[str, Any], many: str, one: str, name: object, file: Path
) -> dict[str, Any]:
    for entry in document.get(many) or ():
        if isinstance(entry, dict) and entry.get("name") == name:
            return _mapping(entry.get(one), file, f"{many}: {name}")
    raise HostError(f"{many} has no {name!r}, which is asked for", where=str(file))


def _mapping(section: object, file: Path, title: str) -> dict[str, Any]:
    if not isinstance(section, dict):
        raise HostError(f"{title} is not a mapping", where=str(file))
    return section


def _path(node: str) -> str:
    return f"/api/v1/nodes/{quote(node, safe='')}"
