"""Which keys a host has by known_hosts: those that paramiko finds, without comparing each line with all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from paramiko import Ed25519Key, HostKeys, PKey, RSAKey
from paramiko.hostkeys import HostKeyEntry

from numaforge.hosts.host_keys import KeysByName

A, B, C = (
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{key}"
    for key in (
        "IFeMVwYHHpXj1jn1rT7TzQuf7Y6DjYYvtd/qHhzMv8bE",
        "IKx5bXrSR8ZOyXLT0SAStYB6M3SPDZ8eo0KyRYeaMPlQ",
        "IN7IVr+dl1w1Q3HEdjZ3mKRpKQuGYrXVjwQHXIBBDzNM",
    )
)
HASHED = HostKeys.hash_host("n1")


@pytest.fixture(scope="module")
def rsa() -> str:
    key = RSAKey.generate(2048)
    return f"{key.get_name()} {key.get_base64()}"


def read(path: Path, text: str, keys: HostKeys) -> HostKeys:
    path.write_text(text)
    keys.load(str(path))
    return keys


def of(keys: HostKeys, name: str) -> dict[str, str] | None:
    found: Mapping[str, PKey] | None = keys.lookup(name)
    return None if found is None else {kind: found[kind].get_base64() for kind in found}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"n1 {A}\nn2 {B}\n", id="each-host-has-its-own"),
        pytest.param(f"n1,n2,10.0.0.1 {A}\n", id="a-line-may-name-several"),
        pytest.param(f"[n1]:2222 {A}\nn1 {B}\n", id="a-port-is-another-host"),
        pytest.param(f"n1 {A}\nn1 {B}\n", id="the-first-of-two-keys-of-a-kind-counts"),
        pytest.param(f"n1 {A}\nn1 RSA\n", id="a-host-has-keys-of-several-kinds"),
        pytest.param(f"n1 {A}\nn1 {A}\n", id="a-line-may-stand-twice"),
        pytest.param(f"{HASHED} {A}\nn2 {B}\n", id="names-may-be-hashed"),
        pytest.param(f"# n1 {A}\n\n  n2 {B} root@n2\n", id="comments-and-blank-lines-are-none"),
        pytest.param(f"n1 ssh-new AAAA\nn2 {B}\n", id="a-kind-of-key-that-is-not-known-is-none"),
        pytest.param("n1\nn2 ssh-ed25519\n", id="a-line-without-a-key-is-none"),
        pytest.param("", id="an-empty-file"),
    ],
)
def test_a_host_has_the_keys_that_paramiko_finds(tmp_path: Path, rsa: str, text: str) -> None:
    text = text.replace("RSA", rsa)
    ours, theirs = (read(tmp_path / "known_hosts", text, keys) for keys in (KeysByName(), HostKeys()))
    for name in ("n1", "n2", "10.0.0.1", "[n1]:2222", "n3"):
        assert of(ours, name) == of(theirs, name), name


def test_a_line_that_is_damaged_costs_no_other_host_its_key(tmp_path: Path) -> None:
    damaged = f"n1 ssh-ed25519 A\nn2 ssh-ed25519 AAAA\n|1|nothing|of {A}\n|1|a|b|c {A}\n"
    keys = read(tmp_path / "known_hosts", f"{damaged}n3 {C}\n", KeysByName())
    assert [of(keys, name) for name in ("n1", "n2")] == [None, None]
    assert of(keys, "n3") == {"ssh-ed25519": C.split()[1]}


def test_a_key_that_is_revoked_is_no_hosts_wherever_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    keys = read(path, f"n1 {A}\nn2 {B}\n", KeysByName())
    read(path, f"@revoked n1 {A}\n@cert-authority *.example.org {C}\n", keys)
    assert of(keys, "n1") is None
    assert of(keys, "n2") == {"ssh-ed25519": B.split()[1]}
    assert keys.has_revoked(Ed25519Key(data=HostKeyEntry.from_line(f"n {A}").key.asbytes()))
    assert not keys.has_revoked(HostKeyEntry.from_line(f"n {C}").key)


def test_a_key_that_is_added_is_the_hosts(tmp_path: Path) -> None:
    keys = read(tmp_path / "known_hosts", f"n1 {A}\n", KeysByName())
    keys.add("n2", "ssh-ed25519", HostKeyEntry.from_line(f"n2 {B}").key)
    assert of(keys, "n2") == {"ssh-ed25519": B.split()[1]}


def test_of_many_hosts_only_the_keys_of_those_are_read_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, made = [], []
    matches, from_line = HostKeys._hostname_matches, HostKeyEntry.from_line
    monkeypatch.setattr(HostKeys, "_hostname_matches", lambda *args: compared.append(args) or matches(*args))
    monkeypatch.setattr(HostKeyEntry, "from_line", lambda *args: made.append(args) or from_line(*args))
    text = "".join(f"n{number} {A}\n" for number in range(1000))
    keys = read(tmp_path / "known_hosts", text, KeysByName())
    assert of(keys, "n500") == {"ssh-ed25519": A.split()[1]}
    assert (len(compared), len(made)) == (1, 1)
