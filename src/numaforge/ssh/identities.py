"""The keys to log in with, in OpenSSH's order, and what is wrong with the file of a private key."""

import base64
import binascii
import os
import re
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy
from functools import cache
from getpass import getpass
from io import StringIO
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as keys
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from paramiko import AgentKey, ECDSAKey, Ed25519Key, Message, PKey, RSAKey, SSHException
from paramiko.agent import AgentSSH

from numaforge.lib.errors import HostError
from numaforge.ssh.openssh import Destination

_MOST_BYTES = 2**16
_PUBLIC = re.compile(r"(?:ssh-|ecdsa-|sk-)\S+ (AAAA\S+)")
_OPENSSH = re.compile(r"-----BEGIN OPENSSH PRIVATE KEY-----(.+?)-----END", re.DOTALL)
_MAGIC = b"openssh-key-v1\0"
_UNREADABLE = (UnsupportedAlgorithm, SSHException, ValueError, TypeError, OSError)


def identities(destination: Destination, *, agent: bool, files: bool) -> Iterator[PKey]:
    """Yield keys: those of the agent that ssh_config names, the agent's others, and those of files."""
    paths = [path for path in destination.files("identityfile") if _exists(path) or _exists(f"{path}.pub")]
    halves = {path: _public_half(path) for path in paths}
    wanted_keys = {*halves.values()}
    of_agent = _agent_keys(destination) if agent else ()
    yield from (key for key in of_agent if key.asbytes() in wanted_keys)
    if not destination.is_on("identitiesonly"):
        yield from (key for key in of_agent if key.asbytes() not in wanted_keys)
    tried = {key.asbytes() for key in of_agent}
    certificates = destination.files("certificatefile")
    for path in paths if files else ():
        if halves[path] in tried:
            continue
        try:
            yield from _with_certificates(_load(path, None), [*certificates, f"{path}-cert.pub"])
        except _UNREADABLE:  # as OpenSSH does, a key that does not open without a question is passed over
            continue


def identity(path: str, password: str | None, destination: Destination) -> Iterator[PKey]:
    """Yield the key of host data, certified ones first; raises HostError with what is wrong with the file."""
    mistake = key_mistake(path)
    if mistake:
        raise HostError(mistake)
    encrypted = _is_encrypted(path)
    if encrypted and not password:
        public = _public_half(path)
        if by_agent := [key for key in _agent_keys(destination) if key.asbytes() == public]:
            yield from by_agent
            return
        if not sys.stdin.isatty():
            raise HostError(
                f"the key {path} is encrypted, and no agent has it",
                remedy=f"give it to an agent (`ssh-add {path}`), or set ssh_key_password",
            )
        password = _asked_password(path)
    certificates = [*destination.files("certificatefile"), f"{path}-cert.pub"]
    try:
        yield from _with_certificates(_load(path, password if encrypted else None), certificates)
    except _UNREADABLE as error:
        message = f"the key {path} cannot be read: it is cut short, or of a kind that is not known"
        remedy = None
        if encrypted:
            message = f"ssh_key_password does not open the key {path}"
            remedy = f"try it: `ssh-keygen -y -f {path}`"
        raise HostError(message, remedy=remedy) from error


def _exists(path: str) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 (for seven files of each host)


@cache
def _asked_password(path: str) -> str:
    return getpass(f"Passphrase of the key {path}: ")


def _with_certificates(plain: PKey, certificates: Iterable[str]) -> Iterator[PKey]:
    for path in certificates:
        key = copy(plain)
        try:
            key.load_certificate(path)
        except (OSError, ValueError, SSHException):  # it is missing, or none
            continue
        fields = plain.asbytes()[4 + len(plain.get_name()) :]
        if key.public_blob and fields in key.public_blob.key_blob:  # else it is another key's
            yield key
    yield plain


def _agent_keys(destination: Destination) -> tuple[AgentKey, ...]:
    """Return the keys of IdentityAgent, or of SSH_AUTH_SOCK; none where no agent answers."""
    setting = next(iter(destination.settings.get("identityagent", ())), "SSH_AUTH_SOCK")
    path = "$SSH_AUTH_SOCK" if setting == "SSH_AUTH_SOCK" else destination.filled(setting)
    path = os.environ.get(path[1:], "") if path.startswith("$") else str(Path(path).expanduser())
    if setting == "none" or not path:
        return ()
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
        agent = AgentSSH()
        agent._connect(connection)  # type: ignore[attr-defined] # not in its types
        agent_keys = tuple(agent.get_keys())
    except (OSError, SSHException):
        connection.close()
        return ()
    for key in agent_keys:
        if getattr(key, "inner_key", None) is None:  # of a security key (paramiko/paramiko#2462)
            key.public_blob = None  # paramiko asks each key for it
    return agent_keys


def _load(path: str, password: str | None) -> PKey:
    """Read a private key again once it has changed: RSA takes a tenth of a second. Raises _UNREADABLE."""
    state = _state(path)
    return _loaded(path, password, state.st_mtime_ns, state.st_size)


@cache
def _loaded(path: str, password: str | None, _changed: int, _size: int) -> PKey:
    text = Path(path).expanduser().read_bytes()
    secret = password.encode() if password is not None else None
    read = keys.load_ssh_private_key if b"BEGIN OPENSSH" in text else keys.load_pem_private_key
    key = read(text, secret)
    if isinstance(key, RSAPrivateKey):
        return RSAKey(key=key)
    if isinstance(key, EllipticCurvePrivateKey):
        return ECDSAKey(vals=(key, key.public_key()))
    if isinstance(key, Ed25519PrivateKey):
        opened = key.private_bytes(keys.Encoding.PEM, keys.PrivateFormat.OpenSSH, keys.NoEncryption())
        return Ed25519Key.from_private_key(StringIO(opened.decode()))
    raise ValueError(f"{path} is a key of a kind that paramiko does not have")


@cache
def key_mistake(path: str) -> str:
    """Return why the file of a private key cannot be one, "" where it may."""
    text = _text(path)
    if text is None:
        return f"the key {path} cannot be read; see who may read it: ls -l {path}"
    if not text.strip():
        return f"the key {path} is empty"
    if _PUBLIC.match(text):
        private = f": name the private one, {path.removesuffix('.pub')}" if path.endswith(".pub") else ""
        return f"the key {path} is the public half{private}"
    if text.startswith("PuTTY-User-Key-File"):
        return f"the key {path} is PuTTY's; convert it: `puttygen {path} -O private-openssh -o id_numaforge`"
    if "PRIVATE KEY-----" not in text:
        form = "-----BEGIN ... PRIVATE KEY-----"
        return f"the key {path} is not a private key: its first line is {form} in one"
    return ""


def _public_half(path: str) -> bytes | None:
    """Return the public half of a private key: from its .pub file, or from its own open part."""
    for public in (f"{path}.pub", path):
        if match := _PUBLIC.match(_text(public) or ""):
            try:
                return base64.b64decode(match[1])
            except binascii.Error:
                continue
    header = _header(path)
    return header and header[1]


def _is_encrypted(path: str) -> bool:
    text = _text(path) or ""
    if "Proc-Type: 4,ENCRYPTED" in text or "BEGIN ENCRYPTED PRIVATE KEY" in text:
        return True
    header = _header(path)
    return header is not None and header[0] != b"none"


def _header(path: str) -> tuple[bytes, bytes] | None:
    """Return the cipher and the public key of a private key in OpenSSH's own format (PROTOCOL.key)."""
    match = _OPENSSH.search(_text(path) or "")
    with suppress(ValueError, struct.error):
        content = base64.b64decode("".join(match[1].split())) if match else b""
        if content.startswith(_MAGIC):
            reader = Message(content[len(_MAGIC) :])
            cipher, _, _ = reader.get_string(), reader.get_string(), reader.get_string()
            return cipher, reader.get_string() if reader.get_int() else b""
    return None


def _text(path: str) -> str | None:
    try:
        state = _state(path)
        return _beginning(path, state.st_mtime_ns, state.st_size)
    except OSError:
        return None


@cache
def _beginning(path: str, _changed: int, _size: int) -> str:
    with Path(path).expanduser().open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")


def _state(path: str) -> os.stat_result:
    return os.stat(os.path.expanduser(path))  # noqa: PTH111, PTH116 (for every host)
