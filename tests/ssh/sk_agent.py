"""An SSH agent with a key of a security key (FIDO), in software: `python sk_agent.py SOCKET PUBLIC-KEY`.

It signs as a token does that was touched: over the hashes of application and message, its flags and a counter
(PROTOCOL.u2f of OpenSSH). What it leaves out is the token: who holds the key, and the touch.
"""

import base64
import hashlib
import socket
import struct
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_KIND = b"sk-ssh-ed25519@openssh.com"
_APPLICATION = b"ssh:"
_TOUCHED = 1
_LIST, _KEYS, _SIGN, _SIGNED, _FAILURE = 11, 12, 13, 14, 5


def string(data: bytes) -> bytes:
    """Return data as SSH writes a string."""
    return struct.pack(">I", len(data)) + data


def _strings(data: bytes) -> list[bytes]:
    found, place = [], 0
    while len(data) - place >= 4:
        (length,) = struct.unpack_from(">I", data, place)
        found.append(data[place + 4 : place + 4 + length])
        place += 4 + length
    return found


def _signature(key: Ed25519PrivateKey, message: bytes) -> bytes:
    of_token = bytes([_TOUCHED]) + struct.pack(">I", 1)
    signed = hashlib.sha256(_APPLICATION).digest() + of_token + hashlib.sha256(message).digest()
    return string(_KIND) + string(key.sign(signed)) + of_token


def _answer(key: Ed25519PrivateKey, public: bytes, asked: bytes) -> bytes:
    if asked[0] == _LIST:
        return bytes([_KEYS]) + struct.pack(">I", 1) + string(public) + string(b"token")
    if asked[0] == _SIGN and (strings := _strings(asked[1:]))[0] == public:
        return bytes([_SIGNED]) + string(_signature(key, strings[1]))
    return bytes([_FAILURE])


def private_file(public: bytes) -> str:
    """Return the file that ssh-keygen writes for a key on a token, which holds all but the secret."""
    handle = bytes([_TOUCHED]) + string(b"the token's handle") + string(b"")
    private = bytes(8) + public + handle + string(b"token")
    private += bytes(range(1, 9 - len(private) % 8))
    content = b"openssh-key-v1\0" + string(b"none") * 2 + string(b"") + struct.pack(">I", 1)
    text = base64.encodebytes(content + string(public) + string(private)).decode()
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{text}-----END OPENSSH PRIVATE KEY-----\n"


def public_key(key: Ed25519PrivateKey) -> bytes:
    """Return the public half as SSH writes it."""
    return string(_KIND) + string(key.public_key().public_bytes_raw()) + string(_APPLICATION)


def main(place: str, public_file: str) -> None:
    """Make a key, write its public half, and serve an agent for ever."""
    key = Ed25519PrivateKey.generate()
    public = public_key(key)
    Path(public_file).write_text(f"{_KIND.decode()} {base64.b64encode(public).decode()} token\n")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(100)
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as asking:
            while len(head := asking.read(4)) == 4:
                said = _answer(key, public, asking.read(struct.unpack(">I", head)[0]))
                connection.sendall(string(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
