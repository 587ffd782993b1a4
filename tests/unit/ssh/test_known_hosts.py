"""Which keys a host has by known_hosts: those that ssh-keygen finds."""

import subprocess
from pathlib import Path

import pytest
from paramiko import HostKeys

from numaforge.ssh.known_hosts import known_keys

A, B, C = (
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{key}"
    for key in (
        "IFeMVwYHHpXj1jn1rT7TzQuf7Y6DjYYvtd/qHhzMv8bE",
        "IKx5bXrSR8ZOyXLT0SAStYB6M3SPDZ8eo0KyRYeaMPlQ",
        "IN7IVr+dl1w1Q3HEdjZ3mKRpKQuGYrXVjwQHXIBBDzNM",
    )
)
HASHED, HASHED_WITH_PORT = HostKeys.hash_host("n1"), HostKeys.hash_host("[n1]:2222")
NAMES = ("n1", "n2", "10.0.0.1", "[n1]:2222", "n3", "gpu-01.example.org", "gpu-99.example.org")


def by_ssh_keygen(file: Path, name: str) -> list[str]:
    """Return mark, type and key of each line that OpenSSH finds."""
    found = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", file], capture_output=True, text=True, check=False
    )
    lines = [line.split() for line in found.stdout.splitlines() if not line.startswith("#")]
    return [" ".join([*words[:-3], *words[-2:]]) for words in lines]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"n1 {A}\nn2 {B}\n", id="each-host-has-its-own"),
        pytest.param(f"n1,n2,10.0.0.1 {A}\n", id="a-line-may-name-several"),
        pytest.param(f"[n1]:2222 {A}\nn1 {B}\n", id="a-port-is-another-host"),
        pytest.param(f"n1 {A}\nn1 {B}\n", id="a-host-may-have-two-keys-of-a-kind"),
        pytest.param(f"{HASHED} {A}\n{HASHED_WITH_PORT} {C}\nn2 {B}\n", id="names-may-be-hashed"),
        pytest.param(f"# n1 {A}\n\n  n2 {B}\n", id="comments-and-blank-lines-are-none"),
        pytest.param(f"gpu-*.example.org {A}\n", id="a-star-stands-for-any-text"),
        pytest.param(f"gpu-0?.example.org {A}\n", id="a-question-mark-stands-for-one-character"),
        pytest.param(f"*.example.org,!gpu-01.example.org {A}\n", id="a-negated-pattern-leaves-a-host-out"),
        pytest.param(f"!gpu-01.example.org {A}\n", id="a-negated-pattern-alone-names-none"),
        pytest.param(f"@cert-authority *.example.org {A}\nn1 {B}\n", id="a-mark-stands-before-the-names"),
        pytest.param(f"@revoked n1 {A}\nn1 {B}\n", id="a-revoked-key-is-marked"),
        pytest.param(f"[n1]:* {A}\n", id="a-pattern-may-stand-for-a-port"),
        pytest.param("n1\nn2 ssh-ed25519\n", id="a-line-without-a-key-is-none"),
        pytest.param("", id="an-empty-file"),
    ],
)
def test_host_keys_match_ssh_keygen(tmp_path: Path, text: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(text)
    for name in NAMES:
        ours = [f"{key.mark} {key.kind} {key.text}".strip() for key in known_keys(str(file), name)]
        assert sorted(ours) == sorted(by_ssh_keygen(file, name)), name


def test_damaged_line_hides_no_other_host_key(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    damaged = f"n1 ssh-ed25519 A\nn2 ssh-ed25519 AAA=A\n|1|nothing|of {A}\n|1|a|b|c {A}\n@revoked\n"
    file.write_text(f"{damaged}n3 {C}\n")
    assert [key.text for name in NAMES for key in known_keys(str(file), name)] == [C.split()[1]]


def test_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    assert known_keys(str(file), "n1") == []
    file.write_text(f"n1 {A}\n")
    assert len(known_keys(str(file), "n1")) == 1
