"""A kubelet's running configuration, its /configz: read by its own node, else through the API server.

`get nodes/proxy` is more than a read permission: it gives a login all that a kubelet serves, including exec
into any container. A kubelet of 1.33 or later also accepts `nodes/configz` for its /configz (KEP-2862), but
only from a direct client: the API server authorizes its own proxy as nodes/proxy. So the node itself asks,
with its kubelet's client certificate for the API server.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numaforge.kubelet.config.loading import load_installed
from numaforge.kubelet_minors.flags import flag_value
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib import shell
from numaforge.lib.errors import HostError, KubeletConfigError
from numaforge.lib.framing import Answer, Output, asking
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.machine.topology.model import KubeletInstall
from numaforge.rollout import configz_probe
from numaforge.rollout.cluster import (
    ApiUnreachableError,
    Cluster,
    ClusterError,
    ForbiddenError,
    NotFoundError,
    Permission,
)

NODES_PROXY = Permission("get", "nodes/proxy")
_CERTIFICATES = f"{ROOT_DIR}/pki"
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
_GRANT = (
    "let the nodes read it (nodes/configz, kubelets of 1.33 and later), or this login (nodes/proxy): "
    "docs/rollout-rbac.yaml has both, and explains what each allows"
)

_NOT_READABLE = "neither the node nor this login may read what the kubelet runs with (/configz)"


class UnreadableConfigError(HostError):
    """A node may not, or cannot, read its kubelet's running configuration."""


class SilentKubeletError(HostError):
    """A kubelet does not answer its own node."""


OwnConfig = Callable[[], Mapping[str, Any]]
"""A kubelet's own configuration. Raises UnreadableConfigError, SilentKubeletError, HostUnreachableError."""


@dataclass(frozen=True)
class KubeletEndpoint:
    """Where a kubelet serves, its client certificate (by `kubeconfig`, else `rotated`) and serving ones."""

    address: str
    port: int
    kubeconfig: str
    rotated: str
    serving: tuple[str, ...]

    @property
    def script(self) -> str:
        """The script whose output `read_answer` parses."""
        probe = Path(str(configz_probe.__file__)).read_text(encoding="utf-8")
        question = json.dumps(asdict(self))
        return asking(shell.library("rollout/configz") + shell.call("ask_configz", [question], data=probe))


def kubelet_endpoint(install: KubeletInstall | None) -> KubeletEndpoint:
    flags = install.flags if install else ()
    settings = _settings(install)
    folder = flag_value(flags, "cert-dir") or _CERTIFICATES
    files = [f"{folder}/kubelet-server-current.pem", f"{folder}/kubelet.crt"]
    certificate = settings.get("tlsCertFile")
    address = str(settings.get("address") or "")
    return KubeletEndpoint(
        address=_LOOPBACK.get(address, address),
        port=int(settings.get("port") or 10250),
        kubeconfig=flag_value(flags, "kubeconfig") or "",
        rotated=f"{folder}/kubelet-client-current.pem",
        serving=tuple(path for path in (certificate, *files) if path),
    )


def _settings(install: KubeletInstall | None) -> Mapping[str, Any]:
    """Return the kubelet's configured settings; empty where it could not load them."""
    if install is None or install.version is None:
        return {}
    try:
        return load_installed(install, KubeletVersion.parse(install.version)).settings
    except KubeletConfigError:
        return {}


def read_answer(output: Output) -> Mapping[str, Any]:
    """Read a kubelet's answer; raises UnreadableConfigError if it refuses, SilentKubeletError without one."""
    try:
        return _answer(Answer.of(output).lines[-1])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise SilentKubeletError("the node answered something else than its kubelet's answer") from error


def _answer(line: str) -> Mapping[str, Any]:
    answer = json.loads(line)
    if reason := answer.get("unreadable"):
        raise UnreadableConfigError(reason)
    if reason := answer.get("silent"):
        raise SilentKubeletError(f"the kubelet does not answer its node: {reason}")
    status, body = answer["status"], answer["body"]
    if status == 200:
        config: Mapping[str, Any] = json.loads(body)["kubeletconfig"]
        return config
    if status in (401, 403, 404):
        raise UnreadableConfigError(
            f"the kubelet refuses it to its own node ({status}: {body.strip()[:200]})"
        )
    raise SilentKubeletError(f"the kubelet answers its node {status}: {body.strip()[:200]}")


def running_config(cluster: Cluster, node: str, read_own: OwnConfig) -> Mapping[str, Any]:
    """Return the kubelet's running configuration, read by its node, else by this login.

    Raises SilentKubeletError where the kubelet does not answer, or the API server; ApiUnreachableError where
    neither may read it now: a starting API server permits nothing for a while, and a kubelet caches that for
    30 s.
    """
    try:
        return read_own()
    except UnreadableConfigError as error:
        unreadable = error
    try:
        return cluster.running_config(node)
    except ApiUnreachableError as unreachable:
        raise SilentKubeletError(unreachable.message) from unreachable
    except (ForbiddenError, NotFoundError) as error:
        cluster.node(node)  # distinguishes a missing node from a missing /configz
        raise ApiUnreachableError(f"{unreadable.message}; {error.message}", remedy=_GRANT) from error


def why_unreadable(read_own: OwnConfig) -> str:
    """Return why a node may not read its kubelet's configuration; "" where it may, or got no answer."""
    try:
        read_own()
    except SilentKubeletError:
        return ""
    except UnreadableConfigError as unreadable:
        return unreadable.message
    return ""


def refuse_unreadable(cluster: Cluster, unreadable: Mapping[str, str]) -> None:
    """Raise ClusterError for hosts that cannot be proved, with their reasons and the rights to grant."""
    if refused := not_readable(cluster, unreadable):
        lines = "".join(f"\n  {host}: {reason}" for host, reason in sorted(refused.items()))
        raise ClusterError(f"{_NOT_READABLE}:{lines}", remedy=_GRANT)


def not_readable(cluster: Cluster, unreadable: Mapping[str, str]) -> dict[str, str]:
    """Return the hosts whose kubelets cannot be proved: neither host nor login may read the configuration."""
    return dict(unreadable) if unreadable and not cluster.may(NODES_PROXY) else {}


def unreadable_refusal(reason: str) -> str:
    """Return the message for one such host."""
    return f"{_NOT_READABLE}: {reason}; {_GRANT}"
