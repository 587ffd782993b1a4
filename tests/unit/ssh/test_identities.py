"""Private keys in every format that ssh-keygen writes, each read once for all hosts."""

import os
import subprocess
from pathlib import Path

import pytest
from paramiko import Message, PKey

from numaforge.ssh.identities import identity
from numaforge.ssh.openssh import Destination, Question

KINDS = {
    "ed25519": (["-t", "ed25519"], None),
    "ECDSA": (["-t", "ecdsa"], None),
    "ECDSA in PKCS 8": (["-t", "ecdsa", "-m", "PKCS8"], None),
    "RSA": (["-t", "rsa", "-b", "2048"], "rsa-sha2-512"),
    "RSA in PEM": (["-t", "rsa", "-b", "2048", "-m", "PEM"], "rsa-sha2-256"),
    "RSA in PKCS 8": (["-t", "rsa", "-b", "2048", "-m", "PKCS8"], "rsa-sha2-512"),
}


def made(file: Path, *words: str) -> Path:
    file.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-N", "", "-f", str(file), *words]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=60)
    return file


def read(file: Path) -> list[PKey]:
    return list(identity(str(file), None, Destination(Question("gpu-01"))))


@pytest.mark.parametrize(("words", "algorithm"), KINDS.values(), ids=list(KINDS))
def test_signature_of_a_key_is_verified_by_its_public_key(tmp_path, words, algorithm):
    (key,) = read(made(tmp_path / "key", *words))
    signature = key.sign_ssh_data(b"data", algorithm)
    public = PKey.from_type_string(key.get_name(), key.asbytes())
    assert public.verify_ssh_sig(b"data", Message(signature.asbytes()))


def test_a_key_is_read_once_until_its_file_changes(tmp_path):
    file = made(tmp_path / "key", "-t", "ed25519")
    (first,), (again,) = read(file), read(file)
    made(file, "-t", "ed25519")
    os.utime(file, (1, 1))
    (other,) = read(file)
    assert (again is first, other.asbytes() == first.asbytes()) == (True, False)


def test_certificate_leaves_plain_key_unchanged(tmp_path):
    authority, file = made(tmp_path / "authority", "-t", "ed25519"), made(tmp_path / "key", "-t", "ed25519")
    signed = ["ssh-keygen", "-q", "-s", str(authority), "-I", "admin", "-n", "root", f"{file}.pub"]
    subprocess.run(signed, check=True, capture_output=True, timeout=60)
    assert [key.public_blob is not None for key in read(file)] == [True, False]
