"""A host's key compared with what OpenSSH's files know of it: names, patterns, hashes, marks and ports."""

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from paramiko import HostKeys, Message, MissingHostKeyPolicy, PKey

from numaforge.lib.errors import HostRefusedError
from numaforge.ssh.openssh import CHECKING, Destination

CERTIFIED = "-cert-v01@openssh.com"
_FIELDS_OF_KEY = {"ssh-ed25519": 1, "ssh-rsa": 2}  # in a certificate; a key of ECDSA has 2
_UNCHECKED = ("no", "off", "false")  # of StrictHostKeyChecking
_OF_HOST = 2  # the type of a host's certificate
_RSA = ("rsa-sha2-512", "rsa-sha2-256")


class KnownKey(NamedTuple):
    """A line of a file: its mark, "" for none, the key's type and the key."""

    mark: str
    kind: str
    key: bytes

    @property
    def text(self) -> str:
        return base64.b64encode(self.key).decode()


class KnownKeys(MissingHostKeyPolicy):
    """Accepts the host keys that OpenSSH would accept; raises HostRefusedError for any other.

    With StrictHostKeyChecking off, OpenSSH also accepts a changed key, but then sends the host no password:
    `changed`.
    """

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._alias = destination.get("hostkeyalias")
        with_port = f"[{destination.host}]:{destination.port}"
        self.name = self._alias or (destination.host if destination.port == 22 else with_port)
        self._files = destination.files("userknownhostsfile")
        names = [self.name] if self._alias else dict.fromkeys((self.name, destination.host))
        files = [*self._files, *destination.files("globalknownhostsfile")]
        keys = {name: [key for file in files for key in known_keys(file, name)] for name in names}
        self._known = [key for of_name in keys.values() for key in of_name]
        self._of_name = keys[self.name]
        self.changed = False

    def preferred(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return types of host keys, this host's known ones first, as OpenSSH orders them."""
        plain = {key.kind for key in self._known if not key.mark}
        plain.update(_RSA if "ssh-rsa" in plain else ())
        authorities = any(key.mark == "@cert-authority" for key in self._known)
        certified = [f"{kind}{CERTIFIED}" for kind in kinds] if authorities else []
        return (*certified, *sorted(kinds, key=lambda kind: kind not in plain))

    def missing_host_key(self, client: Any, hostname: str, key: PKey) -> None:  # noqa: ARG002 (paramiko's)
        """Return where the key is accepted."""
        plain, certificate = key.asbytes(), key.public_blob.key_blob if key.public_blob else None
        if self._is_revoked(key, certificate):
            raise HostRefusedError(
                f"the host key of {self.name} is revoked: {_fingerprint(key)}",
                remedy="another machine may have it, too: give the host new keys and make those known",
            )
        known_plain = [entry.key for entry in self._known if not entry.mark]
        if self._is_this_machine(client) or plain in known_plain:
            return
        why = self._why_not_certified(certificate) if certificate else ""
        if certificate and not why:
            return
        of_kind = [entry for entry in self._of_name if not entry.mark and entry.kind == key.get_name()]
        checking = self._destination.get("stricthostkeychecking")
        if of_kind and checking not in _UNCHECKED:
            raise self._not_the_known_one(key, of_kind[0])
        if checking in (*_UNCHECKED, "accept-new"):
            self.changed = bool(of_kind)
            if not of_kind:
                self._store(key)
            return
        raise self._unknown(key, why)

    def _is_this_machine(self, client: Any) -> bool:
        transport = client.get_transport()
        if not self._destination.is_on("nohostauthenticationforlocalhost") or transport is None:
            return False
        peer = transport.sock.getpeername()
        return isinstance(peer, tuple) and ip_address(peer[0].partition("%")[0]).is_loopback

    def _is_revoked(self, key: PKey, certificate: bytes | None) -> bool:
        revoked = [entry.key for entry in self._known if entry.mark == "@revoked"]
        if key.asbytes() in revoked or (certificate and _Certificate.of(certificate).authority in revoked):
            return True
        return any(_is_revoked_by(file, key) for file in self._destination.files("revokedhostkeys"))

    def _why_not_certified(self, blob: bytes) -> str:
        certificate = _Certificate.of(blob)
        authorities = [entry.key for entry in self._known if entry.mark == "@cert-authority"]
        if certificate.authority not in authorities:
            return "its certificate is of another authority"
        if not certificate.is_signed:
            return "its certificate's signature is wrong"
        if certificate.kind != _OF_HOST or certificate.critical:
            return "its certificate is none of a host"
        if not certificate.after <= time.time() < certificate.before:
            return "its certificate has expired, or begins later"
        name, principals = self._alias or self._destination.host, certificate.principals
        if principals and not any(fnmatch.fnmatchcase(name, principal) for principal in principals):
            return f"its certificate is for {', '.join(principals)}"
        return ""

    def _store(self, key: PKey) -> None:
        """Append an accepted key to the first of the user's files."""
        if not self._files:
            return
        file = Path(self._files[0])
        name = HostKeys.hash_host(self.name) if self._destination.is_on("hashknownhosts") else self.name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = f"{name} {key.get_name()} {key.get_base64()}\n"
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(line)

    def _not_the_known_one(self, key: PKey, entry: KnownKey) -> HostRefusedError:
        known_print = _fingerprint(PKey.from_type_string(entry.kind, entry.key))
        return HostRefusedError(
            f"the host key of {self.name} is not the known one: {_fingerprint(key)}, known is {known_print}",
            remedy="either it was reinstalled, or this is another machine; if you know that it is the "
            f"right one: `ssh-keygen -R '{self.name}'`, then `{self._scan} >> {self._file}`",
        )

    def _unknown(self, key: PKey, why: str) -> HostRefusedError:
        kind = key.get_name().removeprefix("ssh-").partition("-")[0]
        return HostRefusedError(
            f"the host key of {self.name} is not known: {_fingerprint(key)}{why and f'; {why}'}",
            remedy=f"compare that with `ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub` on the host, then "
            f"log in once with ssh, or run `{self._scan} >> {self._file}`; "
            f'{CHECKING} = "accept-new" in group_data accepts the first key of every host',
        )

    @property
    def _file(self) -> str:
        return self._files[0] if self._files else "~/.ssh/known_hosts"

    @property
    def _scan(self) -> str:
        host, port = self._destination.host, self._destination.port
        scan = f"ssh-keyscan -p {port} {host}" if port != 22 else f"ssh-keyscan {host}"
        return f"{scan} | sed 's/^[^ ]*/{self._alias}/'" if self._alias else scan


class _Certificate(NamedTuple):
    """The content of a host's certificate (PROTOCOL.certkeys of OpenSSH)."""

    kind: int
    principals: Sequence[str]
    after: int
    before: int
    critical: bytes
    authority: bytes
    signed: bytes
    signature: bytes

    @classmethod
    def of(cls, blob: bytes) -> "_Certificate":
        """Read one; raises SSHException for what is none."""
        reader = Message(blob)
        key_kind = reader.get_text().removesuffix(CERTIFIED)
        for _ in range(1 + _FIELDS_OF_KEY.get(key_kind, 2)):  # the nonce, and the key
            reader.get_string()
        reader.get_int64()  # the serial number
        kind, _ = reader.get_int(), reader.get_string()
        names, principals = Message(reader.get_string()), []
        while names.get_remainder():
            principals.append(names.get_text())
        valid_after, valid_before, critical = reader.get_int64(), reader.get_int64(), reader.get_string()
        reader.get_string()  # extensions
        reader.get_string()
        authority = reader.get_string()
        signed = blob[: len(blob) - len(reader.get_remainder())]
        signature = reader.get_string()
        return cls(kind, principals, valid_after, valid_before, critical, authority, signed, signature)

    @property
    def is_signed(self) -> bool:
        authority = PKey.from_type_string(Message(self.authority).get_text(), self.authority)
        return bool(authority.verify_ssh_sig(self.signed, Message(self.signature)))


class _File:
    """The lines of a file by name; those with patterns and hashes are tried one by one."""

    def __init__(self, text: str) -> None:
        self._named: dict[str, list[str]] = defaultdict(list)
        self._others: list[tuple[str, str]] = []
        for line in text.splitlines():
            words = line.split(None, 3)
            if len(words) < 3 or words[0].startswith("#"):
                continue
            names = words[1] if words[0].startswith("@") else words[0]
            if any(character in names for character in "*?!|"):
                self._others.append((names, line))
            else:
                for name in names.lower().split(","):
                    self._named[name].append(line)

    def of(self, name: str) -> Iterator[KnownKey]:
        name = name.lower()
        lines = [*self._named.get(name, ()), *(line for names, line in self._others if _matches(names, name))]
        yield from filter(None, map(_known_key, lines))


def known_keys(file: str, name: str) -> list[KnownKey]:
    """Return a host's keys in a file, none without it; plain names are looked up, hashed ones tried."""
    try:
        state = os.stat(file)  # noqa: PTH116 (for four files of each host)
        return list(_read(file, state.st_mtime_ns, state.st_size).of(name))
    except OSError:
        return []


@cache
def _read(file: str, _changed: int, _size: int) -> _File:
    return _File(Path(file).read_text("utf-8", "replace"))


def _matches(names: str, name: str) -> bool:
    if names.startswith("|"):
        try:
            _, _, salt, digest = names.split("|")
            return hmac.digest(base64.b64decode(salt), name.encode(), "sha1") == base64.b64decode(digest)
        except ValueError:  # no hash as ssh writes it
            return False
    patterns = names.lower().split(",")
    refused = (pattern[1:] for pattern in patterns if pattern[0] == "!" and pattern[1:])
    if any(_pattern(pattern).fullmatch(name) for pattern in refused):
        return False
    return any(_pattern(pattern).fullmatch(name) for pattern in patterns)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text).replace(r"\*", ".*").replace(r"\?", "."))


def _known_key(line: str) -> KnownKey | None:
    words = line.split()
    mark = words.pop(0) if words[0].startswith("@") else ""
    try:
        return KnownKey(mark, words[1], base64.b64decode(words[2], validate=True))
    except (binascii.Error, IndexError):
        return None


def _is_revoked_by(file: str, key: PKey) -> bool:
    """Return whether RevokedHostKeys, a list or OpenSSH's binary, names a key, or cannot be read."""
    with NamedTemporaryFile("w", suffix=".pub") as public:
        public.write(f"{key.get_name()} {key.get_base64()}\n")
        public.flush()
        command = ["ssh-keygen", "-Q", "-f", file, public.name]
        ended = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return ended.returncode != 0


def _fingerprint(key: PKey) -> str:
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"
