"""A container image without a registry: Debian's static busybox as one layer of an OCI archive."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"

APPLETS = (
    *(
        "sh",
        "cat",
        "cp",
        "date",
        "dd",
        "df",
        "dmesg",
        "echo",
        "env",
        "false",
        "free",
        "grep",
        "head",
        "hostname",
    ),
    *("id", "ip", "kill", "ln", "ls", "mkdir", "mount", "nc", "nproc", "printenv", "ps", "rm", "sed", "seq"),
    *(
        "sleep",
        "sort",
        "stat",
        "tail",
        "taskset",
        "test",
        "touch",
        "tr",
        "true",
        "uname",
        "wc",
        "wget",
        "which",
    ),
)
"""The names by which a container calls busybox."""


def write(archive: Path, busybox: bytes, images: dict[str, list[str]]) -> None:
    """Write an OCI archive with one image per name of `images`, each with its own command, over one layer."""
    layer = _layer(busybox)
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, media_type: str) -> dict[str, Any]:
        checksum = hashlib.sha256(data).hexdigest()
        blobs[checksum] = data
        return {"mediaType": media_type, "digest": f"sha256:{checksum}", "size": len(data)}

    packed = blob(gzip.compress(layer, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    manifests = []
    for name, arguments in images.items():
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": arguments},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
            "layers": [packed],
        }
        described = blob(json.dumps(manifest).encode(), MANIFEST)
        manifests.append(described | {"annotations": {"io.containerd.image.name": name}})

    index = {"schemaVersion": 2, "manifests": manifests}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(tar, "index.json", json.dumps(index).encode())
        for checksum, data in sorted(blobs.items()):
            _add(tar, f"blobs/sha256/{checksum}", data)


def _layer(busybox: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        _add(tar, "bin/busybox", busybox, mode=0o755)
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
