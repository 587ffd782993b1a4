"""A cluster reached through `kubectl proxy` on a private unix socket, with every login that kubectl knows."""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

from numaforge.lib.bounded import TooMuchOutputError, read_all
from numaforge.lib.errors import NumaforgeError
from numaforge.rollout import objects
from numaforge.rollout.cluster import (
    ApiUnreachableError,
    ClusterError,
    ClusterNode,
    ClusterPod,
    ConflictError,
    ControlPlaneServer,
    DisruptionBudget,
    Eviction,
    EvictionAnswer,
    ForbiddenError,
    Lease,
    NotFoundError,
    Permission,
)
from numaforge.rollout.names import ENDED, LEASE_NAMESPACE, node_name

MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "numaforge"
NODE_LEASES = "kube-node-lease"
API_SERVERS = "kubernetes"
"""The Service of the API servers, its EndpointSlice, and a name that is in their certificates."""
EVENTS = "default"  # the namespace of Events about objects without a namespace
LEASE_SECONDS = 60
MESSAGE_BYTES = 1024  # the longest message that the API takes in an Event
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVICE_ACCOUNT_TOKEN = _SERVICE_ACCOUNT / "token"  # the service account token in a pod
PAGE = 500
START_SECONDS = 10.0
READYZ_SECONDS = 5.0  # how long one API server may take to answer /readyz
LOGIN_SECONDS = 10.0
"""How long a new session retries after 401: a starting API server may not know the login yet."""
_POD = b"the pod's service account"
_LOG_IN_AGAIN = "log in again, so that the kubeconfig has a login that this server accepts"
_ASK_FOR_RIGHTS = "give this login the rights of docs/rollout-rbac.yaml, or use one that has them"
_LOGIN_AGAIN_SECONDS = 0.5
_KUBECONFIG_AGAIN_SECONDS = 2.0
_DRA = "resource.k8s.io"
_DISCOVERY = "discovery.k8s.io"
_GPU_DRIVER = "gpu.nvidia.com"
_TWO_BUDGETS = "more than one PodDisruptionBudget"

# sh ends kubectl when this process ends, in whatever way: that closes the other end of sh's stdin.
_UNTIL_STDIN_ENDS = 'exec 3<&0; "$@" 3<&- & k=$!; { read -r _ <&3; kill "$k"; } 2>/dev/null & wait "$k"'

_Body = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def permissions(namespace: str = LEASE_NAMESPACE) -> tuple[Permission, ...]:
    """Return every roll-out's permissions; without nodes/configz, `configz.NODES_PROXY` is needed, too."""
    coordination = "coordination.k8s.io"
    return (
        *(Permission(verb, "nodes") for verb in ("get", "list", "patch")),
        *(Permission(verb, "pods") for verb in ("list", "delete")),
        Permission("create", "pods/eviction"),
        Permission("list", "poddisruptionbudgets", "policy"),
        Permission("list", "resourceslices", _DRA),
        Permission("get", "endpointslices", _DISCOVERY, "default", API_SERVERS),
        *(
            Permission(verb, "leases", coordination, namespace)
            for verb in ("get", "list", "create", "update")
        ),
        Permission("get", "leases", coordination, NODE_LEASES),
        Permission("create", "events", "", EVENTS),
    )


@dataclass(frozen=True)
class _Kubeconfig:
    """The kubeconfig's present content: the server's URL, and a digest of server and login together."""

    server: str
    digest: bytes


@dataclass(frozen=True)
class _Response:
    """The API server's answer to one request; `document` is None where it is not a JSON object."""

    status: int
    document: Mapping[str, Any] | None
    text: str
    retry_after: float | None

    @property
    def message(self) -> str:
        """The API server's message."""
        server_message = self.document.get("message", "") if self.document else ""
        return str(server_message) or self.text.strip()[:500] or http.client.responses.get(self.status, "")

    @property
    def causes(self) -> Sequence[Mapping[str, Any]]:
        details = (self.document or {}).get("details") or {}
        return details.get("causes") or ()


class KubectlCluster:
    """The cluster of a kubeconfig, or of the pod that this runs in: a context manager over `kubectl proxy`.

    Safe for several threads and greenlets: each call has its own connection and takes at most
    `request_seconds`. A read is retried once when its connection breaks, any call once after 401 or 403,
    which have changed nothing; nothing else is retried. `server` is the URL of one API server of the cluster,
    used in place of the kubeconfig's.
    """

    def __init__(
        self,
        kubeconfig: Path | None = None,
        *,
        context: str | None = None,
        namespace: str = LEASE_NAMESPACE,
        kubectl: str = "kubectl",
        request_seconds: float = 15.0,
        server: str = "",
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._namespace = namespace
        self._kubectl = kubectl
        self._request_seconds = request_seconds
        self._server = server
        self._single: dict[str, KubectlCluster] = {}
        """Connections to single API servers at their own addresses, by URL."""
        self._folder: Path | None = None
        self._proxy: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._login = _Kubeconfig("", b"")
        self._login_read_at = 0.0

    def __enter__(self) -> Self:
        """Start the proxy; raises NumaforgeError without kubectl, a kubeconfig, an API server or a login."""
        self._login = self._read_login()
        self._folder = Path(tempfile.mkdtemp(prefix="numaforge-"))
        try:
            self._start()
            self._log_in()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the proxy, and the proxies to single API servers."""
        for single in self._single.values():
            single.close()
        with self._starting:
            self._stop()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def node(self, name: str) -> ClusterNode:
        return objects.node(self._get(_node_path(name), f"get node {name}"))

    def nodes(self, selector: str = "") -> list[ClusterNode]:
        query = {"labelSelector": selector} if selector else {}
        items = self._list("/api/v1/nodes", "list nodes", query)
        return sorted((objects.node(item) for item in items), key=lambda node: node.name)

    def patch_node(
        self,
        node: ClusterNode,
        *,
        unschedulable: bool | None = None,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,
    ) -> ClusterNode:
        metadata: dict[str, Any] = {
            "resourceVersion": node.resource_version,
            "annotations": dict(annotations),
        }
        if labels:
            metadata["labels"] = dict(labels)
        patch: dict[str, Any] = {"metadata": metadata}
        if unschedulable is not None:
            patch["spec"] = {"unschedulable": unschedulable or None}
        return objects.node(self._do("PATCH", _node_path(node.name), f"patch node {node.name}", patch))

    def lift_taint(self, node: ClusterNode, key: str) -> ClusterNode:
        operations: list[dict[str, Any]] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": node.resource_version}
        ]
        for index in reversed(range(len(node.taints))):
            if node.taints[index].key == key:
                operations.append({"op": "remove", "path": f"/spec/taints/{index}"})
        return objects.node(self._do("PATCH", _node_path(node.name), f"patch node {node.name}", operations))

    def pods(self, node: str) -> list[ClusterPod]:
        query = {"fieldSelector": f"spec.nodeName={node_name(node)}"}
        return [objects.pod(item) for item in self._list("/api/v1/pods", f"list pods of node {node}", query)]

    def evict(self, pod: ClusterPod, *, dry_run: bool = False) -> EvictionAnswer:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = f"{_path(pod)}/eviction" + ("?dryRun=All" if dry_run else "")
        answer = self._ask("POST", path, eviction)
        message = answer.message
        match answer.status:
            case 200 | 201:
                return EvictionAnswer(Eviction.ACCEPTED)
            case 404:
                return EvictionAnswer(Eviction.GONE)
            case 409 if "UID" in message:
                return EvictionAnswer(Eviction.GONE)
            case 429:
                budgets = [cause for cause in answer.causes if cause.get("reason") == "DisruptionBudget"]
                reason = " ".join([message, *(str(cause.get("message", "")) for cause in budgets)]).strip()
                result = Eviction.BUDGET if budgets else Eviction.THROTTLED
                return EvictionAnswer(result, reason, answer.retry_after)
            case 500 if _TWO_BUDGETS in message:
                return EvictionAnswer(Eviction.TWO_BUDGETS, message)
            case status if status >= 502 or answer.document is None:
                raise _error(f"evict pod {pod}", answer)
        return EvictionAnswer(Eviction.REFUSED, message)

    def delete_pod(self, pod: ClusterPod) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        answer = self._ask("DELETE", _path(pod), options)
        deleted = answer.status == 404 or (answer.status == 409 and "UID" in answer.message)
        if not deleted:
            _document(f"delete pod {pod}", answer)

    def disruption_budgets(self) -> list[DisruptionBudget]:
        items = self._list("/apis/policy/v1/poddisruptionbudgets", "list poddisruptionbudgets", {})
        return [objects.disruption_budget(item) for item in items]

    def dynamic_mig(self, node: str = "") -> list[str]:
        fields = {"spec.driver": _GPU_DRIVER, **({"spec.nodeName": node_name(node)} if node else {})}
        query = {"fieldSelector": ",".join(f"{name}={value}" for name, value in fields.items())}
        try:
            items = self._list(f"/apis/{_DRA}/v1/resourceslices", "list resourceslices", query)
        except NotFoundError:
            return []  # before 1.34, which the driver needs for it
        return sorted({name for item in items if (name := objects.partitioned_node(item))})

    def api_servers(self) -> list[ControlPlaneServer]:
        path = f"/apis/{_DISCOVERY}/v1/namespaces/default/endpointslices/{API_SERVERS}"
        try:
            slices = self._get(path, f"get endpointslice {API_SERVERS} in namespace default")
        except NotFoundError:
            return []
        servers = [
            ControlPlaneServer(address, port, None) for address, port in sorted(objects.endpoints(slices))
        ]
        return [self._readiness(server) for server in servers]

    def lease(self, name: str) -> Lease:
        doing = f"get lease {name} in namespace {self._namespace}"
        try:
            return objects.lease(self._get(f"{self._leases}/{_segment(name)}", doing))
        except NotFoundError:
            return Lease(name)

    def leases(self, *, ended: bool = False) -> list[Lease]:
        query = {"labelSelector": f"{MANAGED_BY}={COMPONENT}" + ("" if ended else f",!{ENDED}")}
        items = self._list(self._leases, f"list leases in namespace {self._namespace}", query)
        return sorted((objects.lease(item) for item in items), key=lambda lease: lease.name)

    def put_lease(self, lease: Lease) -> Lease:
        doing = f"lease {lease.name} in namespace {self._namespace}"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old: Mapping[str, Any] = lease.document.get("spec") or {}
        same = (old.get("holderIdentity") or "") == lease.holder
        document = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": lease.name,
                "namespace": self._namespace,
                # With the UID, a Lease deleted meanwhile is a conflict; without it, a PUT would re-create it.
                "uid": lease.document.get("metadata", {}).get("uid"),
                "resourceVersion": lease.resource_version or None,
                "labels": {**lease.labels, MANAGED_BY: COMPONENT},
                "annotations": dict(lease.annotations),
            },
            "spec": {
                "holderIdentity": lease.holder or None,
                "leaseDurationSeconds": LEASE_SECONDS,
                "acquireTime": old.get("acquireTime", now) if same else now,
                "renewTime": now,
                "leaseTransitions": old.get("leaseTransitions", 0) + (0 if same else 1),
            },
        }
        if not lease.resource_version:
            try:
                return objects.lease(self._do("POST", self._leases, f"create {doing}", document))
            except NotFoundError as missing:
                raise ClusterError(
                    f"the cluster has no namespace {self._namespace}, where roll-outs keep their Leases",
                    where=self._login.server,
                    remedy="`kubectl apply -f docs/rollout-rbac.yaml`, or name another one: --namespace",
                ) from missing
        return objects.lease(
            self._do("PUT", f"{self._leases}/{_segment(lease.name)}", f"update {doing}", document)
        )

    def node_heartbeat(self, node: str) -> str | None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NODE_LEASES}/leases/{node_name(node)}"
        try:
            lease = self._get(path, f"get lease {node} in namespace {NODE_LEASES}")
        except NotFoundError:
            return None
        renewed: str | None = lease["spec"].get("renewTime")
        return renewed

    def running_config(self, node: str) -> Mapping[str, Any]:
        path = f"{_node_path(node)}/proxy/configz"
        answer: Mapping[str, Any] = self._get(path, f"get node {node}/proxy/configz")["kubeletconfig"]
        return answer

    def tell(self, node: ClusterNode, reason: str, message: str, *, warning: bool = False) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{node.name}.", "namespace": EVENTS},
            # Like the kubelet: `kubectl describe node` looks for the name in place of the UID.
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.name},
            "reason": reason,
            "message": message.encode()[:MESSAGE_BYTES].decode(errors="ignore"),
            "type": "Warning" if warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._do("POST", f"/api/v1/namespaces/{EVENTS}/events", f"create event of node {node.name}", event)

    def version(self) -> str:
        """Return the API server's version, such as v1.36.3."""
        return str(self._get("/version", "get /version").get("gitVersion", "unknown"))

    def may(self, permission: Permission) -> bool:
        resource, _, subresource = permission.resource.partition("/")
        if resource:
            attributes = {
                "verb": permission.verb,
                "group": permission.group,
                "resource": resource,
                "subresource": subresource,
                "namespace": permission.namespace or "",
                "name": permission.name,
            }
            spec = {"resourceAttributes": attributes}
        else:
            spec = {"nonResourceAttributes": {"verb": permission.verb, "path": permission.resource}}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = self._do("POST", path, "create selfsubjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def _readiness(self, server: ControlPlaneServer) -> ControlPlaneServer:
        """Ask one API server at its own address for /readyz, with this login."""
        try:
            answer = self._at(f"https://{server}")._ask_at_once("GET", "/readyz?verbose")
        except ApiUnreachableError as silent:
            return replace(server, message=silent.message)
        failed = [line.removeprefix("[-]") for line in answer.text.splitlines() if line.startswith("[-]")]
        match answer.status:
            case http.HTTPStatus.OK:
                return replace(server, ready=True)
            case http.HTTPStatus.INTERNAL_SERVER_ERROR if failed:
                return replace(server, ready=False, message="; ".join(failed))
        return replace(server, message=f"{answer.message} ({answer.status})")

    def _at(self, url: str) -> "KubectlCluster":
        """Return the connection to the API server at a URL; its proxy starts on the first request."""
        with self._starting:
            if url not in self._single:
                single = KubectlCluster(
                    self._kubeconfig,
                    context=self._context,
                    kubectl=self._kubectl,
                    request_seconds=READYZ_SECONDS,
                    server=url,
                )
                single._folder = Path(tempfile.mkdtemp(prefix="numaforge-"))
                if self._login.digest == _POD:
                    single._kubeconfig = _write_pod_kubeconfig(single._folder)
                self._single[url] = single
            return self._single[url]

    @property
    def _leases(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{_segment(self._namespace)}/leases"

    def _get(self, path: str, doing: str) -> Mapping[str, Any]:
        return self._do("GET", path, doing)

    def _do(self, method: str, path: str, doing: str, body: _Body | None = None) -> Mapping[str, Any]:
        """Return the API server's answer; ForbiddenError names the server."""
        try:
            return _document(doing, self._ask(method, path, body))
        except ForbiddenError as refusal:
            raise refusal.at(self._login.server) from refusal

    def _list(self, path: str, doing: str, query: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Return the items of all pages."""
        items: list[Mapping[str, Any]] = []
        following = ""
        while True:
            page = {**query, "limit": str(PAGE)} | ({"continue": following} if following else {})
            answer = self._get(f"{path}?{urlencode(page)}", doing)
            items += answer.get("items") or ()
            following = answer["metadata"].get("continue", "")
            if not following:
                return items

    def _log_in(self) -> None:
        """Return once the API server accepts this login; raises ClusterError where it refuses it."""
        deadline = time.monotonic() + LOGIN_SECONDS
        while True:
            answer = self._ask_at_once("GET", "/version")
            if answer.status != http.HTTPStatus.UNAUTHORIZED or time.monotonic() >= deadline:
                break
            time.sleep(_LOGIN_AGAIN_SECONDS)
        if answer.status == http.HTTPStatus.UNAUTHORIZED:
            raise ClusterError(
                f"the API server does not accept this login: {answer.message} (401)",
                where=self._login.server,
                remedy=_LOG_IN_AGAIN,
            )
        if answer.status != http.HTTPStatus.OK:
            raise ClusterError(
                f"the API server cannot be asked: {answer.message} ({answer.status})",
                where=self._login.server,
                remedy=_ASK_FOR_RIGHTS
                if answer.status == http.HTTPStatus.FORBIDDEN
                else "check the server's URL in the kubeconfig",
            )

    def _ask(self, method: str, path: str, body: _Body | None = None) -> _Response:
        """Return the API server's answer; after 401, kubectl fetches a new token, or has a new login.

        A starting API server refuses for a while what it allows later: logins (401) while it cannot reach
        their issuer, and everything (403) until it has loaded its roles. Raises ApiUnreachableError for that.
        """
        answer = self._ask_at_once(method, path, body)
        if answer.status == http.HTTPStatus.UNAUTHORIZED:
            self._take_new_login()
            answer = self._ask_at_once(method, path, body)
            if answer.status == http.HTTPStatus.UNAUTHORIZED:
                raise ApiUnreachableError(
                    f"{self._login.server} does not accept this login now: {answer.message} (401)",
                    remedy=_LOG_IN_AGAIN,
                )
        elif answer.status == http.HTTPStatus.FORBIDDEN:
            readiness = self._ask_at_once("GET", "/readyz")
            if readiness.status == http.HTTPStatus.FORBIDDEN or readiness.status >= 500:
                raise ApiUnreachableError(f"the API server is not ready: {answer.message}")
            answer = self._ask_at_once(method, path, body)
        return answer

    def _ask_at_once(self, method: str, path: str, body: _Body | None = None) -> _Response:
        try:
            try:
                return self._ask_once(method, path, body)
            except (ConnectionError, http.client.HTTPException):
                if method != "GET":
                    raise
                return self._ask_once(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            silence = str(error) or type(error).__name__
            raise ApiUnreachableError(
                f"{method} {path.partition('?')[0]} has no answer: {silence}"
            ) from error

    def _ask_once(self, method: str, path: str, body: _Body | None) -> _Response:
        connection = self._connect()
        try:
            headers = {"Accept": "application/json"}
            if body is not None:
                headers["Content-Type"] = _kind(method, body)
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            try:
                text = read_all(response.read, self._login.server).decode(errors="replace")
            except TooMuchOutputError as error:
                raise ClusterError(error.message, where=error.where) from error
            return _read_response(response.status, text, response.headers.get("Retry-After"))
        finally:
            connection.close()

    def _connect(self) -> "_UnixConnection":
        """Connect to the proxy; restart it where it has ended."""
        connection = _UnixConnection(self._socket(), self._request_seconds)
        try:
            connection.connect()
        except (ConnectionRefusedError, FileNotFoundError):
            self._start()
            connection.connect()
        return connection

    def _socket(self) -> str:
        if self._folder is None:
            raise ClusterError("the connection to the cluster is closed")
        return str(self._folder / "api")

    def _take_new_login(self) -> None:
        """Restart the proxy where the kubeconfig has a new login: kubectl reads it only once."""
        with self._starting:
            if time.monotonic() - self._login_read_at < _KUBECONFIG_AGAIN_SECONDS:
                return
            with contextlib.suppress(ClusterError):  # it may be half-written at this moment
                login = self._read_login()
                if login != self._login:
                    self._login = login
                    self._stop()
            self._login_read_at = time.monotonic()

    def _read_login(self) -> _Kubeconfig:
        """Read the kubeconfig through kubectl; raises ClusterError where it is unusable."""
        if shutil.which(self._kubectl) is None:
            raise ClusterError(
                f"the program {self._kubectl} is not installed here",
                remedy="install kubectl, through which the cluster is reached",
            )
        if self._kubeconfig is not None:
            try:
                self._kubeconfig.read_bytes()
            except OSError as error:
                raise ClusterError(
                    f"the kubeconfig cannot be read: {error.strerror}", where=str(self._kubeconfig)
                ) from error
        done = subprocess.run(
            [*self._command(), "config", "view", "--minify", "--flatten", "--raw", "--output=json"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return _Kubeconfig(_server_in(done.stdout), hashlib.sha256(done.stdout.encode()).digest())
        stderr = done.stderr.strip().removeprefix("error: ")
        complaint = stderr or f"{self._kubectl} ended with {done.returncode}, and printed nothing"
        if "current-context must exist" in complaint:
            in_cluster = None if self._kubeconfig or self._context else _own_cluster()
            if in_cluster is not None:
                return _Kubeconfig(in_cluster, _POD)
            complaint = "there is no kubeconfig with a current context"
        raise ClusterError(
            complaint,
            where=str(self._kubeconfig) if self._kubeconfig else None,
            remedy="name a kubeconfig of the cluster in KUBECONFIG, as `kubeconfig` in numaforge_rollout or "
            "by --kubeconfig, and a context that it has",
        )

    def _command(self) -> list[str]:
        options = [f"--kubeconfig={self._kubeconfig}"] if self._kubeconfig else []
        options += [f"--context={self._context}"] if self._context else []
        if self._server:  # its certificate has the Service's name, at any address
            options += [f"--server={self._server}", f"--tls-server-name={API_SERVERS}"]
        return [self._kubectl, *options]

    def _start(self) -> None:
        """Start the proxy unless it answers, and return once it does."""
        with self._starting:
            path = self._socket()
            if _answers(path):
                return
            self._stop()
            Path(path).unlink(missing_ok=True)
            log = Path(path).with_name("log")
            with log.open("wb") as output:
                self._proxy = subprocess.Popen(
                    # --append-server-path: the URL of a server behind Rancher has a path (kubectl 1.23).
                    [
                        *("sh", "-c", _UNTIL_STDIN_ENDS, "sh", *self._command(), "proxy"),
                        *(f"--unix-socket={path}", "--append-server-path"),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            deadline = time.monotonic() + START_SECONDS
            while not _answers(path):
                if self._proxy.poll() is not None or time.monotonic() > deadline:
                    output_text = log.read_text(errors="replace").strip() or "it printed nothing"
                    raise ApiUnreachableError(f"kubectl proxy does not serve: {output_text}")
                time.sleep(0.02)

    def _stop(self) -> None:
        if self._proxy is None:
            return
        if self._proxy.stdin is not None:
            self._proxy.stdin.close()
        try:
            self._proxy.wait(5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._proxy.pid, signal.SIGKILL)
            self._proxy.wait()
        self._proxy = None


def _kind(method: str, body: _Body) -> str:
    """Return the media type of a body: a JSON patch is a list of operations, a merge patch an object."""
    if method != "PATCH":
        return "application/json"
    return "application/merge-patch+json" if isinstance(body, Mapping) else "application/json-patch+json"


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket; the proxy serves only requests to the host name localhost."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(self.timeout)
        try:
            sock.connect(self._path)
        except OSError:
            sock.close()
            raise
        self.sock = sock


def _own_cluster() -> str | None:
    """Return the API server's URL in a pod, where kubectl uses its service account; None elsewhere."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    return f"https://{host}:{port}" if host and port and SERVICE_ACCOUNT_TOKEN.exists() else None


def _write_pod_kubeconfig(folder: Path) -> Path:
    """Write a kubeconfig with this pod's login: with --server alone, kubectl would not use it."""
    cluster = {"server": "", "certificate-authority": str(_SERVICE_ACCOUNT / "ca.crt")}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "pod", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"tokenFile": str(SERVICE_ACCOUNT_TOKEN)}}],
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        "current-context": "pod",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return path


def _server_in(text: str) -> str:
    """Return the server's URL in the output of `kubectl config view --minify`."""
    try:
        [cluster] = json.loads(text)["clusters"]
        return str(cluster["cluster"].get("server", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterError(
            "the kubeconfig's current context names no cluster that the kubeconfig has",
            remedy="name a context with a cluster: `kubectl config get-contexts`",
        ) from error


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
    return True


def _path(pod: ClusterPod) -> str:
    return f"/api/v1/namespaces/{_segment(pod.namespace)}/pods/{_segment(pod.name)}"


def _node_path(name: str) -> str:
    return f"/api/v1/nodes/{_segment(node_name(name))}"


def _segment(name: str) -> str:
    """Return a name as one segment of a path; raises ClusterError for a name that cannot be one."""
    if name in ("", ".", ".."):
        raise ClusterError(f"{name!r} is not the name of an object")
    return quote(name, safe="")


def _read_response(status: int, text: str, retry_after: str | None) -> _Response:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return _Response(status, document if isinstance(document, dict) else None, text, seconds)


def _document(doing: str, answer: _Response) -> Mapping[str, Any]:
    if answer.status >= 300 or answer.document is None:
        raise _error(doing, answer)
    return answer.document


def _error(doing: str, answer: _Response) -> NumaforgeError:
    kinds: dict[int, type[ClusterError]] = {
        403: ForbiddenError,
        404: NotFoundError,
        409: ConflictError,
        410: ApiUnreachableError,  # a list that expired while it was read
        429: ApiUnreachableError,
    }
    kind = kinds.get(answer.status, ApiUnreachableError if answer.status >= 500 else ClusterError)
    remedy = _ASK_FOR_RIGHTS if kind is ForbiddenError else None
    return kind(f"{answer.message} ({answer.status})", where=doing, remedy=remedy)
