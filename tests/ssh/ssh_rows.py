"""What ssh_config(5) offers for reaching a host, a row for each: the configuration, and who then answers.

A row's name is its host's in the inventory and in ~/.ssh/config, where its `config` is its block. `{home}` is
the controller's home, `{agents}` the folder of its agents' sockets. Machines and names: `MACHINES`, `NAMES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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


def name(target: str, *more: str, port: int = 22) -> str:
    """Return the lines of a block for a machine."""
    return "\n".join([f"HostName {target}", *([f"Port {port}"] if port != 22 else []), *more])


_PROXY = {
    "proxycommand": Row(name("inner", "ProxyCommand ssh -W %h:%p bastion"), "inner"),
    "proxycommand-tokens": Row(
        name("gpu-c", "User root", "ProxyCommand sh ~/.ssh/check-and-relay %h %p %r %n", port=2222), "gpu-c"
    ),
    "proxycommand-quotes": Row(
        name("gpu-b", """ProxyCommand sh -c 'exec sh "$HOME/.ssh/relay" "%h" "%p"'"""), "gpu-b"
    ),
    "proxycommand-fails": Row(
        name("gpu-a", "ProxyCommand sh -c 'echo your login has expired: tsh login >&2; exit 1'"),
        says="your login has expired: tsh login",
        state=None,
    ),
    "proxycommand-fails-at-length": Row(
        name("gpu-a", "ProxyCommand sh -c 'echo no such instance >&2; echo exit status 254 >&2; exit 1'"),
        says="no such instance",
        state=None,
    ),
    "proxycommand-missing": Row(
        name("gpu-a", "ProxyCommand no-such-program %h"), says="no-such-program", state=None
    ),
    "proxycommand-silent": Row(
        name("gpu-a", "ProxyCommand sleep 600", "ConnectTimeout 2"), says="", state=UNREACHABLE
    ),
    "proxycommand-passes-a-socket": Row(
        name("gpu-b", "ProxyCommand sh ~/.ssh/pass-a-socket %h %p", "ProxyUseFdpass yes"), "gpu-b"
    ),
    "proxycommand-none": Row(
        name("gpu-a", "ProxyCommand none"), "gpu-a", file="Host *\n  ProxyCommand false\n{others}"
    ),
}
_JUMP = {
    "jump-hop-has-own-business": Row(
        name("inner", "ProxyJump hop-busy"),
        "inner",
        raw="Host hop-busy\n  HostName bastion\n  LocalForward 127.0.0.1:22 localhost:9\n"
        "  ExitOnForwardFailure yes\n  RemoteCommand echo no\n  RequestTTY yes\n  VisualHostKey yes\n",
    ),
    "jump-quiet-refusal": Row(
        name("inner", "ProxyJump hop-quiet"),
        state=None,
        raw="Host hop-quiet\n  HostName bastion-k\n  LogLevel QUIET\n",
    ),
    "jump": Row(name("inner", "ProxyJump bastion"), "inner"),
    "jump-chained": Row(name("deep", "ProxyJump bastion,bastion-2"), "deep"),
    "jump-hop-behind-hop": Row(
        name("deep", "ProxyJump hop-behind"),
        "deep",
        raw="Host hop-behind\n  HostName bastion-2\n  Port 2200\n  ProxyJump bastion\n",
    ),
    "jump-user-port": Row(name("deep", "ProxyJump root@127.0.0.12:2200"), "deep"),
    "jump-uri": Row(name("deep", "ProxyJump ssh://root@127.0.0.12:2200"), "deep"),
    "jump-uri-ipv6": Row(
        "ProxyJump ssh://root@[fd00::11]:2200",
        says="ProxyJump",
        state=None,
        file="# OpenSSH 9.2 reads no such URI\n",
    ),
    "jump-ipv6": Row(name("inner", "ProxyJump root@[fd00::11]:2200"), "inner"),
    "jump-of-all-but-the-bastion": Row(
        name("inner"), "inner", file="Host bastion\n  ProxyJump none\nHost *\n  ProxyJump bastion\n{others}"
    ),
    "jump-none": Row(name("twin", "ProxyJump none"), "gpu-a", file="Host *\n  ProxyJump bastion\n{others}"),
    "jump-port-22": Row(
        name("inner", "ProxyJump hop-22"), "inner", raw="Host hop-22\n  HostName bastion\n  Port 22\n"
    ),
    "jump-own-key": Row(
        name("inner", "ProxyJump hop-own-key"),
        "inner",
        raw="Host hop-own-key\n  HostName bastion-k\n  IdentityFile ~/.ssh/hop\n  IdentitiesOnly yes\n",
    ),
    "jump-by-command": Row(
        name("inner", "ProxyJump hop-command"),
        "inner",
        raw="Host hop-command\n  HostName bastion\n  ProxyCommand sh ~/.ssh/relay %h %p\n",
    ),
    "jump-resolves-there": Row(name("twin", "HostKeyAlias gpu-b", "ProxyJump bastion"), "gpu-b"),
    "jump-shared": Row(
        name("inner", "ProxyJump hop-shared"),
        "inner",
        raw="Host hop-shared\n  HostName bastion\n  ControlMaster auto\n  ControlPath {agents}/%C\n"
        "  ControlPersist 20\n",
    ),
    "jump-with-port": Row(
        name("127.0.0.3", "ProxyJump bastion", "HostKeyAlias alias-of-c", port=2222), "gpu-c"
    ),
    "jump-closed": Row(name("inner", "ProxyJump closed"), says="Connection refused", state=UNREACHABLE),
    "jump-unknown-key": Row(name("inner", "ProxyJump unknown"), says="ost key", state=None),
    "jump-refuses": Row(
        name("inner", "ProxyJump hop-refuses"),
        says="Permission denied",
        state=None,
        raw="Host hop-refuses\n  HostName bastion-k\n",
    ),
    "jump-to-nowhere": Row(name("nowhere.fleet", "ProxyJump bastion"), says="", state=UNREACHABLE),
    "jump-by-itself": Row("ProxyJump jump-by-itself", says="jumphost loop via", state=None),
    "jump-of-all-with-the-bastion": Row(
        name("inner"),
        says="jumphost loop via bastion",
        state=None,
        file="Host *\n  ProxyJump bastion\n{others}",
    ),
}
_INCLUDE = {
    "include-order": Row(reaches="gpu-b", raw="Include order.d/*.conf\n"),
    "include-nested": Row(reaches="gpu-b", raw="Include nested/outer.conf\n"),
    "include-several": Row(reaches="gpu-b", raw="Include several-1.conf several-2.conf\n"),
    "include-quoted": Row(reaches="gpu-b", raw='Include "with a space.conf"\n'),
    "include-twice": Row(reaches="gpu-b", raw="Include twice.conf\nInclude twice.conf\n"),
    "include-of-home": Row(reaches="gpu-b", raw="Include ~/.ssh/of-home.conf\n"),
    "include-nothing": Row(name("gpu-b"), "gpu-b", raw="Include no-such.d/*.conf\n"),
    "include-in-a-block": Row("Include in-a-block.conf", "gpu-b"),
    "include-of-itself": Row(
        name("gpu-a"), says="include", state=None, file="Include {home}/.ssh/itself.conf\n"
    ),
}
_MATCH = {
    "match-exec": Row(raw='Match exec "test %n = match-exec"\n  HostName gpu-b\n', reaches="gpu-b"),
    "match-host": Row(raw="Match host match-ho??\n  HostName gpu-b\n", reaches="gpu-b"),
    "match-originalhost": Row(
        raw="Match originalhost match-originalhost\n  HostName gpu-b\n", reaches="gpu-b"
    ),
    "match-user": Row(
        raw="Host match-user\n  User deployer\nMatch host match-user user deployer\n  HostName gpu-b\n",
        reaches="gpu-b",
    ),
    "match-localuser": Row(
        raw="Match host match-localuser localuser root\n  HostName gpu-b\n", reaches="gpu-b"
    ),
    "match-not": Row(raw="Match originalhost match-not !user nobody\n  HostName gpu-b\n", reaches="gpu-b"),
    "match-final": Row(name("gpu-c"), "gpu-c", file="Match final host gpu-c\n  Port 2222\n{others}"),
    "pattern-01": Row(raw="Host pattern-?? !pattern-02\n  HostName gpu-b\n", reaches="gpu-b"),
    "pattern-02": Row(name("gpu-a"), "gpu-a"),
    "first-value-wins": Row(name("gpu-b"), "gpu-b", raw="Host last\nHost first-value-*\n  User root\n"),
    "equals-signs": Row('HostName = "gpu-c"\nPort=2222', "gpu-c"),
}
_NAMES = {
    "a-name-alone": Row(name("gpu-a"), "gpu-a"),
    "hostname-token": Row(name("%h.fleet"), "gpu-b"),
    "canonical": Row(
        "CanonicalizeHostname yes\nCanonicalDomains fleet", "gpu-c", raw="Host canonical.fleet\n  Port 2222\n"
    ),
    "address-ipv6": Row(name("fd00::6"), "six"),
    "address-family": Row(name("dual", "AddressFamily inet6", "HostKeyAlias six"), "six"),
    "bind-address": Row(name("picky", "BindAddress 127.0.0.77"), "picky"),
    "port": Row(name("gpu-c", port=2222), "gpu-c"),
    "user": Row(name("gpu-a", "User deployer"), "gpu-a"),
    "intervals-with-units": Row(
        name("gpu-a", "ServerAliveInterval 1m", "ServerAliveCountMax 3", "ConnectTimeout 1m"), "gpu-a"
    ),
    "ciphers": Row(name("gpu-a", "Ciphers aes128-ctr", "MACs hmac-sha2-256", "Compression yes"), "gpu-a"),
    "own-master": Row(
        name("gpu-a", "ControlMaster auto", "ControlPath {agents}/own-%C", "ControlPersist 20"), "gpu-a"
    ),
    "bind-interface": Row(name("gpu-a", "BindInterface lo"), "gpu-a"),
    "side-effects": Row(
        name("gpu-a", "ForwardAgent yes", "PermitLocalCommand yes", "LocalCommand true", "SendEnv LANG"),
        "gpu-a",
    ),
    "preferred-authentication": Row(
        name("gpu-a", "PreferredAuthentications keyboard-interactive"),
        "gpu-a",
        differs="keys are always tried",
    ),
    "not-for-commands": Row(
        name("gpu-a", "RequestTTY force", "RemoteCommand echo no", "LocalForward 9999 localhost:9"),
        "gpu-a",
        differs="ssh itself refuses a command beside RemoteCommand",
    ),
    "no-such-name": Row(name("nowhere.fleet"), says="resolve", state=UNREACHABLE),
    "no-listener": Row(name("closed"), says="Connection refused", state=UNREACHABLE),
    "never-answers": Row(name("silent", "ConnectTimeout 2"), state=UNREACHABLE),
    "bad-token": Row("HostName %z", says="percent_expand", state=None),
    "bad-option": Row(name("gpu-a"), says="bogus", state=None, file="Host *\n  Bogus yes\n"),
    "bad-value": Row(name("gpu-a"), says="abc", state=None, file="Match host bad-value\n  Port abc\n"),
    "bad-line": Row(name("gpu-a"), says="", state=None, file="Host *\n  HostName\n{others}"),
}
_KNOWN = {
    "known-alias": Row(name("127.0.0.2", "HostKeyAlias gpu-b"), "gpu-b"),
    "known-alias-and-port": Row(name("127.0.0.3", "HostKeyAlias alias-of-c", port=2222), "gpu-c"),
    "known-by-pattern": Row(name("node7.pattern"), "gpu-b"),
    "known-by-pattern-but-not": Row(name("node8.pattern"), says="host key"),
    "known-by-hash": Row(name("hashed"), "gpu-b"),
    "known-without-its-port": Row(name("127.0.0.3", port=2222), "gpu-c"),
    "known-by-authority": Row(name("certified"), "certified"),
    "known-by-authority-expired": Row(name("expired"), says="host key"),
    "known-by-authority-misnamed": Row(name("misnamed"), says="host key"),
    "known-in-second-file": Row(
        name("second-file", "UserKnownHostsFile ~/.ssh/none ~/.ssh/known_second"), "gpu-b"
    ),
    "known-in-spaced-file": Row(name("spaced-file", 'UserKnownHostsFile "~/.ssh/known spaced"'), "gpu-b"),
    "known-in-no-file": Row(name("gpu-b", "UserKnownHostsFile none"), says="host key"),
    "known-in-file-of-host": Row(name("gpu-b", "UserKnownHostsFile ~/.ssh/known_of_%n"), "gpu-b"),
    "known-globally": Row(name("global"), "gpu-b"),
    "known-in-other-global-file": Row(
        name("gpu-b", "UserKnownHostsFile none", "GlobalKnownHostsFile ~/.ssh/known_hosts"), "gpu-b"
    ),
    "known-by-one-of-two-keys": Row(name("two-keys"), "two-keys"),
    "known-ecdsa": Row(name("ecdsa"), "ecdsa"),
    "known-rsa": Row(name("rsa"), "rsa"),
    "known-of-this-machine": Row(name("127.0.0.34", "NoHostAuthenticationForLocalhost yes"), "unknown"),
    "known-by-command": Row(
        name("unknown", "KnownHostsCommand /bin/sh {home}/.ssh/known-hosts-command %H"),
        says="is not known",
        differs="no command is asked for known keys",
        ssh_reaches="unknown",
    ),
    "revoked-by-list": Row(name("gpu-b", "RevokedHostKeys ~/.ssh/revoked_keys"), says="revoked"),
    "revoked": Row(name("revoked"), says="revoked"),
    "revoked-no": Row(
        name("revoked", "StrictHostKeyChecking no"),
        says="revoked",
        differs="ssh warns and goes on; we never go on over a key that is revoked",
        ssh_reaches="revoked",
    ),
    "changed-key": Row(name("changed"), says="not the known one"),
    "changed-key-accept-new": Row(
        name("changed", "StrictHostKeyChecking accept-new"), says="not the known one"
    ),
    "changed-key-no": Row(name("changed", "StrictHostKeyChecking no"), "changed"),
    "unknown-key": Row(name("unknown"), says="is not known"),
    **{
        f"unknown-{word}": Row(
            name("unknown", f"StrictHostKeyChecking {word}", f"UserKnownHostsFile ~/.ssh/learned/{word}"),
            "unknown" if word in ("no", "off", "false", "accept-new") else None,
            "is not known",
        )
        for word in ("yes", "true", "ask", "no", "off", "false", "accept-new")
    },
}
_KEYS = {
    "key-of-home": Row(name("gpu-k", "IdentityFile ~/.ssh/other"), "gpu-k"),
    "key-of-token-home": Row(name("gpu-k", "IdentityFile %d/.ssh/other"), "gpu-k"),
    "key-of-token-user": Row(name("gpu-k", "IdentityFile ~/.ssh/other_of_%u"), "gpu-k"),
    "key-of-token-host": Row(name("gpu-k", "IdentityFile ~/.ssh/other_of_%n"), "gpu-k"),
    "key-of-variable": Row(name("gpu-k", "IdentityFile ${HOME}/.ssh/other"), "gpu-k"),
    "key-of-several": Row(
        name(
            "gpu-k", "IdentityFile ~/.ssh/none", "IdentityFile ~/.ssh/stranger", "IdentityFile ~/.ssh/other"
        ),
        "gpu-k",
    ),
    "key-with-a-space": Row(name("gpu-k", 'IdentityFile "~/.ssh/other key"'), "gpu-k"),
    "key-ecdsa": Row(name("gpu-b", "IdentityFile ~/.ssh/fleet_ecdsa", "IdentitiesOnly yes"), "gpu-b"),
    "key-rsa": Row(name("gpu-b", "IdentityFile ~/.ssh/fleet_rsa", "IdentitiesOnly yes"), "gpu-b"),
    "key-rsa-pem": Row(name("gpu-b", "IdentityFile ~/.ssh/pem_rsa", "IdentitiesOnly yes"), "gpu-b"),
    "key-ecdsa-pkcs8": Row(name("gpu-b", "IdentityFile ~/.ssh/pkcs8_ecdsa", "IdentitiesOnly yes"), "gpu-b"),
    "key-rsa-pkcs8": Row(name("gpu-b", "IdentityFile ~/.ssh/pkcs8_rsa", "IdentitiesOnly yes"), "gpu-b"),
    "key-locked": Row(
        name("gpu-k", "IdentityFile ~/.ssh/other_locked"), says="is refused", file="# no other key\n"
    ),
    "key-locked-in-agent": Row(
        name("gpu-k", "IdentityFile ~/.ssh/other_locked", "IdentityAgent {agents}/locked"), "gpu-k"
    ),
    "key-in-agent": Row(name("gpu-k", "IdentityAgent {agents}/other"), "gpu-k"),
    "key-in-agent-by-public-half": Row(
        name("gpu-k", "IdentityAgent {agents}/full", "IdentityFile ~/.ssh/in_full.pub", "IdentitiesOnly yes"),
        "gpu-k",
    ),
    "key-behind-a-full-agent": Row(
        name("gpu-k", "IdentityAgent {agents}/full", "IdentityFile ~/.ssh/other", "IdentitiesOnly yes"),
        "gpu-k",
    ),
    "agent-in-variable": Row(name("gpu-k", "IdentityAgent $OTHER_AGENT"), "gpu-k"),
    "agent-of-environment": Row(name("gpu-e", "IdentityAgent SSH_AUTH_SOCK"), "gpu-e"),
    "agent-by-default": Row(name("gpu-e"), "gpu-e"),
    "agent-none": Row(name("gpu-e", "IdentityAgent none"), says="is refused"),
    "agent-away": Row(name("gpu-a", "IdentityAgent {agents}/no-such"), "gpu-a"),
    "key-only-of-others": Row(
        name("gpu-a", "IdentityFile ~/.ssh/stranger", "IdentitiesOnly yes"),
        says="",
        file="# no other key\n",
    ),
    "key-open-to-all": Row(
        name("gpu-k", "IdentityFile ~/.ssh/other_open"),
        "gpu-k",
        file="# no other key\n",
        differs="ssh passes over a key that others may read",
    ),
    "key-missing": Row(name("gpu-a", "IdentityFile ~/.ssh/no-such"), "gpu-a"),
    "certificate": Row(
        name("trusting", "IdentityFile ~/.ssh/certified", "CertificateFile ~/.ssh/elsewhere-cert.pub"),
        "trusting",
    ),
    "certificate-beside-its-key": Row(name("trusting", "IdentityFile ~/.ssh/certified_too"), "trusting"),
    "certificate-in-agent": Row(name("trusting", "IdentityAgent {agents}/certified"), "trusting"),
    "token-in-agent": Row(name("tokened", "IdentityAgent {agents}/token", "IdentitiesOnly no"), "tokened"),
    "token-without-its-agent": Row(
        name("gpu-k", "IdentityFile ~/.ssh/on_a_token", "IdentityFile ~/.ssh/other"), "gpu-k"
    ),
    "pubkey-no": Row(name("gpu-a", "PubkeyAuthentication no"), says="is refused"),
    "wrong-user": Row(name("gpu-a", "User nobody-here"), says="the login as nobody-here is refused"),
    "login-refused": Row(name("picky"), says="the login as root is refused"),
}
_OF_DATA = {
    "data-address": Row(name("nowhere.fleet"), "gpu-a", data={"ssh_hostname": "gpu-a"}),
    "data-alias": Row(reaches="inner", data={"ssh_hostname": "jump"}),
    "data-port": Row(name("gpu-c", port=99), "gpu-c", data={"ssh_port": 2222}),
    "data-user": Row(name("gpu-a", "User nobody-here"), "gpu-a", data={"ssh_user": "deployer"}),
    "data-key": Row(name("gpu-k"), "gpu-k", data={"ssh_key": "{home}/.ssh/other"}),
    "data-known-hosts": Row(
        name("second-file"), "gpu-b", data={"ssh_known_hosts_file": "{home}/.ssh/known_second"}
    ),
    "data-strict-no": Row(
        name("unknown"),
        "unknown",
        data={"ssh_strict_host_key_checking": "no", "ssh_known_hosts_file": "{home}/.ssh/learned/data"},
    ),
    "data-config-file": Row(name("gpu-b"), "gpu-b", file="Host *\n  Port 22\n{others}"),
    # What `ssh` itself does not pass on to a jump.
    "hop-data-unknown-key": Row(
        name("inner", "ProxyJump bastion-u"),
        "inner",
        data={"ssh_strict_host_key_checking": "no", "ssh_known_hosts_file": "{home}/.ssh/learned/hop"},
        differs="ssh does not pass options on to a jump; host data count for it, too",
    ),
    "hop-data-known-hosts": Row(
        name("inner", "ProxyJump bastion-u"),
        "inner",
        data={"ssh_known_hosts_file": "{home}/.ssh/known_for_hop"},
        differs="ssh does not pass options on to a jump; host data count for it, too",
    ),
    "hop-data-key": Row(
        name("inner-k", "ProxyJump bastion-k"),
        "inner-k",
        data={"ssh_key": "{home}/.ssh/hop"},
        differs="ssh does not pass -i on to a jump; host data count for it, too",
    ),
    "hop-data-strict-yes": Row(
        name("inner", "ProxyJump hop-careless"),
        says="ost key",
        state=None,
        raw="Host hop-careless\n  HostName unknown\n  StrictHostKeyChecking no\n"
        "  UserKnownHostsFile ~/.ssh/learned/careless\n",
        data={"ssh_strict_host_key_checking": "yes"},
        differs="ssh does not pass options on to a jump; host data count for it, too",
        ssh_reaches="inner",
    ),
}
ROWS: Mapping[str, Row] = {
    **_PROXY,
    **_JUMP,
    **_INCLUDE,
    **_MATCH,
    **_NAMES,
    **_KNOWN,
    **_KEYS,
    **_OF_DATA,
}

KEY_KINDS = {
    "fleet_ecdsa": ("ecdsa",),
    "fleet_rsa": ("rsa", "-b", "2048"),
    "pem_rsa": ("rsa", "-b", "2048", "-m", "PEM"),
    "pkcs8_ecdsa": ("ecdsa", "-m", "PKCS8"),
    "pkcs8_rsa": ("rsa", "-b", "2048", "-m", "PKCS8"),
}
"""How ssh-keygen makes the keys of ~/.ssh that are not ed25519."""
FILES = {
    "relay": """exec python3 -IS -c '
import os, socket, sys, threading
to = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def pump(read, write, end):
    while data := read():
        write(data)
    end()
back = (lambda: to.recv(65536), lambda data: os.write(1, data), lambda: os._exit(0))
threading.Thread(target=pump, args=back, daemon=True).start()
pump(lambda: os.read(0, 65536), to.sendall, lambda: to.shutdown(socket.SHUT_WR))
threading.Event().wait()
' "$@"
""",
    "pass-a-socket": """exec python3 -IS -c '
import socket, sys
to = socket.create_connection((sys.argv[1], int(sys.argv[2])))
socket.send_fds(socket.socket(fileno=1), [b"x"], [to.fileno()])
' "$@"
""",
    "known-hosts-command": 'echo "$1 $(cat ~/.ssh/unknown_key)"\n',
    "check-and-relay": """[ "$3 $4" = "root proxycommand-tokens" ] || exit 1
exec sh ~/.ssh/relay "$1" "$2"
""",
    "order.d/20-second.conf": "Host include-order\n  HostName gpu-a\n",
    "order.d/10-first.conf": "Host include-order\n  HostName gpu-b\n",
    "order.d/30-third.conf": "Host include-order\n  HostName six\n",
    "nested/outer.conf": "Include nested/inner.conf\n",
    "nested/inner.conf": "Host include-nested\n  HostName gpu-b\n",
    "several-1.conf": "Host include-several\n  User root\n",
    "several-2.conf": "Host include-several\n  HostName gpu-b\n",
    "with a space.conf": "Host include-quoted\n  HostName gpu-b\n",
    "twice.conf": "Host include-twice\n  HostName gpu-b\n",
    "of-home.conf": "Host include-of-home\n  HostName gpu-b\n",
    "in-a-block.conf": "HostName gpu-b\n",
    "itself.conf": "Include {home}/.ssh/itself.conf\n",
}
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
