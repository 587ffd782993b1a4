"""What a kubelet's TLS set-up rejects.

Source: InitializeTLS in cmd/kubelet/app/server.go, k8s.io/component-base/cli/flag (ciphersuites_flag.go,
curves_flag.go), and Go's crypto/tls.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.versions import KubeletVersion

_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_CIPHER_SUITES = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_RC4_128_SHA",
    }
)
_FIRST_MINOR_WITH_CURVES = 36
_CURVES = (23, 24, 25, 29, 4587, 4588, 4589)
"""P-256, P-384, P-521, X25519, and three with ML-KEM: those of Go 1.26, which builds kubelet 1.36."""
_LARGEST_CURVE = 65535


class TlsComplaint(NamedTuple):
    """A rejected setting: its path, the kubelet's message, and a remedy."""

    path: str
    text: str
    remedy: str


def tls_complaint(settings: Mapping[str, Any], version: KubeletVersion) -> TlsComplaint | None:
    """Return the first TLS setting that this kubelet rejects, or None."""
    for index, suite in enumerate(settings.get("tlsCipherSuites") or []):
        if suite not in _CIPHER_SUITES:
            text = f"Cipher suite {suite} not supported or doesn't exist"
            remedy = "name suites as Go does, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
            return TlsComplaint(f"tlsCipherSuites[{index}]", text, remedy)
    least = settings.get("tlsMinVersion") or ""
    if least and least not in _VERSIONS:
        text = f"unknown tls version {quoted(least)}"
        return TlsComplaint("tlsMinVersion", text, f"use one of {', '.join(_VERSIONS)}")
    if version.rules_minor < _FIRST_MINOR_WITH_CURVES:
        return None
    return _curve_complaint(settings.get("tlsCurvePreferences") or [])


def _curve_complaint(curves: Iterable[int]) -> TlsComplaint | None:
    earlier: set[int] = set()
    for index, curve in enumerate(curves):
        complaint = None
        if not 0 < curve <= _LARGEST_CURVE:
            complaint = f"curve preference {curve} is out of range (must be 1-{_LARGEST_CURVE})"
        elif curve in earlier:
            complaint = f"duplicate curve preference {curve}"
        elif curve not in _CURVES:
            complaint = f"curve preference {curve} is not supported by the current Go version"
        if complaint:
            remedy = f"use numbers of {', '.join(map(str, _CURVES))}, each once"
            return TlsComplaint(f"tlsCurvePreferences[{index}]", complaint, remedy)
        earlier.add(curve)
    return None
