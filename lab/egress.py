"""Lead the API server to the nodes' kubelets: an HTTP CONNECT proxy on a unix socket.

The API server does not proxy to nodes whose names resolve to loopback addresses (isProxyableHostname), and
the kubelets are reached on nothing else. So it resolves the names to addresses that lead nowhere, asks this
proxy to connect, and the proxy dials the loopback address that belongs to the name.

    python egress.py STATE, with the state directory as the working directory
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

SOCKET = "egress.sock"
"""Below the state directory, which is the working directory: the path of a unix socket has to be short."""
ADDRESSES = "egress.json"
"""The loopback address of every node by name."""
KUBELET_PORT = 10250


def configuration() -> dict[str, object]:
    """Return the API server's EgressSelectorConfiguration for everything that it asks of nodes."""
    transport = {"uds": {"udsName": SOCKET}}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
        ],
    }


async def serve(addresses: dict[str, str]) -> None:
    """Accept connections until the process is ended."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _connect(reader, writer, addresses)
        except (ConnectionError, asyncio.IncompleteReadError) as end:
            print(f"connection ended: {end}", file=sys.stderr)
        finally:
            writer.close()

    Path(SOCKET).unlink(missing_ok=True)
    os.umask(0o077)
    server = await asyncio.start_unix_server(handle, SOCKET)
    async with server:
        await server.serve_forever()


async def _connect(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, addresses: dict[str, str]
) -> None:
    request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    target = request.split(" ")[1]
    address = addresses.get(target.rpartition(":")[0])
    if address is None:
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        print(f"{target} is not a node of this lab", file=sys.stderr)
        return
    try:
        node_reader, node_writer = await asyncio.open_connection(address, KUBELET_PORT)
    except OSError as refusal:
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
        print(f"{target}: {refusal}", file=sys.stderr)
        return
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await asyncio.gather(_pump(reader, node_writer), _pump(node_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(ADDRESSES).read_text())))
