"""Ask a node's own kubelet for its /configz, as the node; sent to hosts, where Python 3.7 is enough."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SECONDS = 5.0
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return `status` and `body` of the kubelet's answer, or why there is none: `unreadable` or `silent`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Its serving certificate names the node, not loopback, and often only the kubelet has signed it. So it
    # is compared with the file that the kubelet serves it from.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        served = [_certificate(path) for path in map(Path, question["serving"]) if path.exists()]
        context.load_cert_chain(*_login(question))
    except (OSError, ValueError) as error:
        return {"unreadable": f"the kubelet's certificates cannot be read: {error}"}
    address, port = question["address"], question["port"]
    connection = http.client.HTTPSConnection(address, port, context=context, timeout=SECONDS)
    try:
        connection.connect()
        if connection.sock.getpeercert(binary_form=True) not in served:
            return {"unreadable": f"what serves at port {port} has another certificate than the kubelet"}
        connection.request("GET", "/configz")
        response = connection.getresponse()
        return {"status": response.status, "body": response.read().decode(errors="replace")}
    except (OSError, http.client.HTTPException) as error:
        return {"silent": str(error) or type(error).__name__}
    finally:
        connection.close()


def _login(question: Mapping[str, Any]) -> tuple[Path, Path]:
    """Return the files of the kubelet's client certificate and key: those that its kubeconfig names."""
    kubeconfig = Path(question["kubeconfig"])
    text = kubeconfig.read_text(encoding="utf-8")
    certificate, key = _value_of(text, "client-certificate"), _value_of(text, "client-key")
    if not certificate or not key:
        return Path(question["rotated"]), Path(question["rotated"])
    return kubeconfig.parent / certificate, kubeconfig.parent / key


def _value_of(kubeconfig: str, key: str) -> str:
    found = re.search(rf"""^[ \t{{,-]*["']?{key}["']?\s*:\s*["']?([^"'\n,}}]+)""", kubeconfig, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _certificate(path: Path) -> bytes:
    """Return the first certificate in a file; the others of its chain follow, and its key may."""
    found = _CERTIFICATE.search(path.read_text(encoding="ascii", errors="replace"))
    if found is None:
        raise ValueError(f"{path} holds no certificate")
    return ssl.PEM_cert_to_DER_cert(found.group())


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
