"""What ssh_config(5) offers for reaching a host, a row for each: the configuration, and who then answers.

A row's name is its host's in the inventory and in ~/.ssh/config, where its `config` is its block. `{home}` is
the controller's home, `{agents}` the folder of its agents' sockets. Machines and names: `MACHINES`, `NAMES`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fixtures.tables import tables
from tests.ssh.ssh_machines import Machine

REFUSED = "refused"
UNREACHABLE = "unreachable"

_INNER = "127.0.0.21 inner\n127.0.0.2 twin\n127.0.0.12 bastion-2\n"
MACHINES = (
    Machine("gpu-a", "127.0.0.1"),
    Machine(
        "gpu-b",
        "127.0.0.2",
        keys=("fleet", "fleet_ecdsa", "fleet_rsa", "pkcs8_ecdsa", "pkcs8_rsa", "pem_rsa"),
    ),
    Machine("gpu-c", "127.0.0.3", 2222),
    Machine("gpu-k", "127.0.0.4", keys=("other", "in_full")),
    Machine("gpu-e", "127.0.0.5", keys=("in_environment",)),
    Machine("six", "fd00::6"),
    Machine("bastion", "127.0.0.11", hosts=_INNER),
    Machine("bastion-2", "127.0.0.12", 2200, hosts="127.0.0.22 deep\n" + _INNER),
    Machine("bastion-k", "127.0.0.13", keys=("hop",), hosts=_INNER + "127.0.0.23 inner-k\n"),
    Machine("bastion-6", "fd00::11", 2200, hosts=_INNER),
    Machine("bastion-u", "127.0.0.14", keys=("fleet", "hop"), hosts=_INNER),  # of a key that is not known
    Machine("inner", "127.0.0.21"),
    Machine("deep", "127.0.0.22"),
    Machine("inner-k", "127.0.0.23", keys=("hop",)),
    Machine("certified", "127.0.0.31", more="HostCertificate {machine}/ed25519-cert.pub\n"),
    Machine("trusting", "127.0.0.32", keys=(), more="TrustedUserCAKeys {machine}/authority.pub\n"),
    Machine("changed", "127.0.0.33"),
    Machine("unknown", "127.0.0.34", hosts=_INNER),
    Machine("two-keys", "127.0.0.35", host_keys=("ed25519", "rsa")),
    Machine("ecdsa", "127.0.0.36", host_keys=("ecdsa",)),
    Machine("rsa", "127.0.0.37", host_keys=("rsa",)),
    Machine("revoked", "127.0.0.43"),
    Machine("silent", "127.0.0.38"),  # it is stopped
    Machine("picky", "127.0.0.39", more="AllowUsers root@127.0.0.77\n"),
    Machine("expired", "127.0.0.40", more="HostCertificate {machine}/ed25519-cert.pub\n"),
    Machine("misnamed", "127.0.0.41", more="HostCertificate {machine}/ed25519-cert.pub\n"),
    Machine("tokened", "127.0.0.42"),  # which lets in the key of sk_agent.py
)
_OF_MACHINES = {each.name: each.address for each in MACHINES if each.name not in ("inner", "deep", "inner-k")}
NAMES = {
    **_OF_MACHINES,
    "twin": "127.0.0.1",  # on bastions that name is gpu-b's
    "hostname-token.fleet": "127.0.0.2",
    "canonical.fleet": "127.0.0.3",
    "canonical.fleet.": "127.0.0.3",  # as ssh asks for it
    "node7.pattern": "127.0.0.2",
    "node8.pattern": "127.0.0.1",
    "hashed": "127.0.0.2",
    "second-file": "127.0.0.2",
    "spaced-file": "127.0.0.2",
    "global": "127.0.0.2",
    "closed": "127.0.0.50",
    "dual": "127.0.0.1",
}
"""The names that the controller knows; `dual` has an IPv6 address besides, of another machine."""
SECOND_NAMES = {"dual": "fd00::6"}


@dataclass(frozen=True)
class Row:
    """One way to reach a host, or not to.

    `reaches` is the machine that answers, None for none; then `says` is part of the message, and `state`
    whether the host is refused or does not answer, None where it may be either. `file` is a configuration of
    the row's own, `raw` stands in ~/.ssh/config outside of its block. `differs` is why our answer may be
    another than that of `ssh`, which is then `ssh_reaches`.
    """

    config: str = ""
    reaches: str | None = None
    says: str = ""
    state: str | None = REFUSED
    raw: str = ""
    file: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    differs: str = ""
    ssh_reaches: str | None = None

    @property
    def by_ssh(self) -> str | None:
        """The machine that answers to `ssh`."""
        return self.ssh_reaches if self.differs else self.reaches


CASES = tables(__file__)
ROWS: Mapping[str, Row] = {name: Row(**row) for name, row in CASES["rows"].items()}

KEY_KINDS = {
    "fleet_ecdsa": ("ecdsa",),
    "fleet_rsa": ("rsa", "-b", "2048"),
    "pem_rsa": ("rsa", "-b", "2048", "-m", "PEM"),
    "pkcs8_ecdsa": ("ecdsa", "-m", "PKCS8"),
    "pkcs8_rsa": ("rsa", "-b", "2048", "-m", "PKCS8"),
}
"""How ssh-keygen makes the keys of ~/.ssh that are not ed25519."""
FILES: Mapping[str, str] = CASES["files"]
"""Files of ~/.ssh beside the configuration, in the order in which they are written."""
OTHERS = """
Host bastion-2 bastion-6
  Port 2200
Host *
  IdentityFile ~/.ssh/fleet
  UpdateHostKeys no
"""
"""The end of ~/.ssh/config, and of a row's own file where that says so."""
PATIENCE = """
Host *
  ConnectTimeout 90
"""
"""The end of every configuration: all hosts log in at once, on a machine that may be busy."""
