"""What is wrong with the file of a private key: pyinfra says "Invalid private key file" of everything."""

from __future__ import annotations

import base64
import binascii
import re
import struct
import sys
from functools import cache
from pathlib import Path

from pyinfra.api import Host
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.ssh_util import get_private_key

_MOST_BYTES = 2**16
_PUBLIC = re.compile(r"(ssh-|ecdsa-|sk-)\S+ AAAA")
_OPENSSH = re.compile(r"-----BEGIN OPENSSH PRIVATE KEY-----(.+?)-----END", re.DOTALL)
_MAGIC = b"openssh-key-v1\0"


def key_mistake(host: Host) -> str | None:
    """Return why a host's `ssh_key` cannot be used; None where it can, or where there is none.

    pyinfra keeps the key, and takes it when it connects.
    """
    path, password = host.data.get("ssh_key"), host.data.get("ssh_key_password")
    if not path or not isinstance(host.connector, SSHConnector):
        return None
    if mistake := _mistake_in(path):
        return mistake
    if _is_encrypted(path) and not password and not sys.stdin.isatty():  # pyinfra asks on a terminal
        return (
            f"the key {path} is encrypted: set ssh_key_password; or give it to an agent (ssh-add {path}) and "
            "leave ssh_key out"
        )
    try:
        get_private_key(host.state, path, password or "")
    except (PyinfraError, ValueError, TypeError, EOFError):
        if _is_encrypted(path):
            return f"ssh_key_password does not open the key {path}; try it: ssh-keygen -y -f {path}"
        return f"the key {path} cannot be read: it is cut short, or of a kind that is not known"
    return None


@cache
def _mistake_in(path: str) -> str | None:
    text = _text_of_file(path)
    if text is None:
        return f"the key {path} cannot be read; see who may read it: ls -l {path}"
    if not text.strip():
        return f"the key {path} is empty"
    if _PUBLIC.match(text):
        private = f": name the private one, {path.removesuffix('.pub')}" if path.endswith(".pub") else ""
        return f"the key {path} is the public half{private}"
    if text.startswith("PuTTY-User-Key-File"):
        return f"the key {path} is PuTTY's; convert it: puttygen {path} -O private-openssh -o id_numaforge"
    if "PRIVATE KEY-----" not in text:
        return f"the key {path} is no private key: its first line is -----BEGIN ... PRIVATE KEY----- in one"
    return None


@cache
def _is_encrypted(path: str) -> bool:
    text = _text_of_file(path) or ""
    if "Proc-Type: 4,ENCRYPTED" in text or "BEGIN ENCRYPTED PRIVATE KEY" in text:
        return True
    found = _OPENSSH.search(text)
    if found is None:
        return False
    try:
        content = base64.b64decode("".join(found[1].split()))
        start = len(_MAGIC) + 4
        (length,) = struct.unpack(">I", content[len(_MAGIC) : start])
    except (binascii.Error, struct.error):
        return False
    return content.startswith(_MAGIC) and content[start : start + length] != b"none"


def _text_of_file(path: str) -> str | None:
    try:
        with Path(path).expanduser().open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
