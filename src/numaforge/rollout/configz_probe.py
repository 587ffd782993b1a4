"""Ask a node's own kubelet for its /configz, as the node; runs on hosts, with Python 3.7 or later.

http.client, pathlib and typing would double Python's run time, on a node that is starting its pods.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SECONDS = 5.0
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return `status` and `body` of the kubelet's answer, or why there is none: `unreadable` or `silent`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The serving certificate names the node, not loopback, and is often self-signed by the kubelet. So it is
    # compared with the kubelet's file.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        served = [_certificate(path) for path in question["serving"] if os.path.exists(path)]
        context.load_cert_chain(*_login(question))
    except (OSError, ValueError) as error:
        return {"unreadable": f"the kubelet's certificates cannot be read: {error}"}
    port = question["port"]
    try:
        with context.wrap_socket(
            socket.create_connection((question["address"], port), SECONDS)
        ) as connection:
            if connection.getpeercert(binary_form=True) not in served:
                return {"unreadable": f"what serves at port {port} has another certificate than the kubelet"}
            return _get(connection)
    except OSError as error:
        return {"silent": str(error) or type(error).__name__}


def _get(connection: ssl.SSLSocket) -> dict[str, Any]:
    """Return the answer over HTTP/1.0, which ends with the connection and is never chunked."""
    connection.sendall(b"GET /configz HTTP/1.0\r\n\r\n")
    with connection.makefile("rb") as stream:
        head, _, body = stream.read().partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.\d (\d{3})\b", head)
    if status is None:
        return {"silent": f"{head[:60]!r} is not an HTTP answer"}
    return {"status": int(status.group(1)), "body": body.decode(errors="replace")}


def _login(question: Mapping[str, Any]) -> tuple[str, str]:
    """Return the files of the kubelet's client certificate and key, as named by its kubeconfig or rotated."""
    kubeconfig = question["kubeconfig"]
    text = _text(kubeconfig)
    certificate, key = _value_of(text, "client-certificate"), _value_of(text, "client-key")
    if not certificate or not key:
        return question["rotated"], question["rotated"]
    folder = os.path.dirname(kubeconfig)
    return os.path.join(folder, certificate), os.path.join(folder, key)


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _value_of(kubeconfig: str, key: str) -> str:
    match = re.search(rf"""^[ \t{{,-]*["']?{key}["']?\s*:\s*["']?([^"'\n,}}]+)""", kubeconfig, re.MULTILINE)
    return match.group(1).strip() if match else ""


def _certificate(path: str) -> bytes:
    """Return the first certificate in a file; the rest of its chain, and perhaps its key, follow it."""
    match = _CERTIFICATE.search(_text(path))
    if match is None:
        raise ValueError(f"{path} holds no certificate")
    return ssl.PEM_cert_to_DER_cert(match.group())


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
