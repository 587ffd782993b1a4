"""What a kubelet's TLS set-up rejects.

Source: InitializeTLS in cmd/kubelet/app/server.go, k8s.io/component-base/cli/flag (ciphersuites_flag.go,
curves_flag.go), and Go's crypto/tls.
"""

from collections.abc import Mapping
from typing import Any

from numaforge.kubelet.findings import Fault, fault
from numaforge.kubelet_minors.tables import CIPHER_SUITES
from numaforge.kubelet_minors.values.gotext import quoted

_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_FIRST_MINOR_WITH_CURVES = 36
_CURVES = (23, 24, 25, 29, 4587, 4588, 4589)
"""P-256, P-384, P-521, X25519, and three with ML-KEM: those of Go 1.26, which builds kubelet 1.36."""
_LARGEST_CURVE = 65535


def tls_fault(settings: Mapping[str, Any], minor: int) -> Fault | None:
    """Return the first TLS setting that this kubelet rejects, or None."""
    for index, suite in enumerate(settings.get("tlsCipherSuites") or []):
        if suite not in CIPHER_SUITES:
            return fault("NF219", "cipher suite", index=index, suite=suite)
    least = settings.get("tlsMinVersion") or ""
    if least and least not in _VERSIONS:
        return fault("NF219", "TLS version", version=quoted(least))
    if minor < _FIRST_MINOR_WITH_CURVES:
        return None
    curves: list[int] = settings.get("tlsCurvePreferences") or []
    for index, curve in enumerate(curves):
        complaint = None
        if not 0 < curve <= _LARGEST_CURVE:
            complaint = f"curve preference {curve} is out of range (must be 1-{_LARGEST_CURVE})"
        elif curve in curves[:index]:
            complaint = f"duplicate curve preference {curve}"
        elif curve not in _CURVES:
            complaint = f"curve preference {curve} is not supported by the current Go version"
        if complaint:
            return fault("NF219", "TLS curve", index=index, complaint=complaint)
    return None
