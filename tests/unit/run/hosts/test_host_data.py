"""What an inventory may say of a host: each datum, what is refused, and what is said of that."""

from pathlib import Path

import pytest
from pyinfra.api import Inventory
from pyinfra.api.arguments import all_argument_meta

from numaforge.run.hosts.host_data import TABLE, mistakes_in, notices

REFUSED = {
    "a number for a profile": ("numaforge_profile", 5, "5 is not accepted; write the name of a ready"),
    "a list for a profile": ("numaforge_profile", ["training"], "['training'] is not accepted"),
    "an empty profile": ("numaforge_profile", {}, "{} is not accepted"),
    "a text for seconds": (
        "kubelet_start_seconds",
        "soon",
        "'soon' is not accepted; write a whole number from 1",
    ),
    "seconds below none": ("kubelet_start_seconds", -5, "-5 is not accepted"),
    "a truth for seconds": ("kubelet_stable_seconds", True, "True is not accepted"),
    "a text for a port": ("ssh_port", "22", "'22' is not accepted; write a whole number from 1 to 65535"),
    "a port that no host has": ("ssh_port", 65536, "65536 is not accepted"),
    "a key that is not there": (
        "ssh_key",
        "/nowhere/key",
        "'/nowhere/key' is not accepted; write the file of",
    ),
    "a number for a key": ("ssh_key", 7, "7 is not accepted"),
    "a word for host keys": ("ssh_strict_host_key_checking", True, "write yes, no, off, ask or accept-new"),
    "a text for settings": ("numaforge_rollout", "10%", "'10%' is not accepted; write a mapping"),
    "an unknown setting": ("numaforge_rollout", {"max_unavailble": 1}, "did you mean max_unavailable?"),
    "a misspelt key": ("numaforge_profle", "training", "is not read; did you mean numaforge_profile?"),
    "an address in Ansible's words": ("ansible_host", "10.0.0.7", "not read; write ssh_hostname"),
    "a port in Ansible's words": ("ansible_port", 2222, "not read; write ssh_port"),
    "a user in Ansible's words": ("ansible_user", "ubuntu", "not read; write ssh_user"),
    "a user in the words of an older Ansible": ("ansible_ssh_user", "ubuntu", "not read; write ssh_user"),
    "a key in Ansible's words": ("ansible_ssh_private_key_file", "~/.ssh/id", "not read; write ssh_key"),
    "a jump host in Ansible's words": (
        "ansible_ssh_common_args",
        "-J bastion",
        "into ~/.ssh/config, for this host: -J HOST is ProxyJump HOST",
    ),
    "another connection of Ansible's": ("ansible_connection", "local", "as @local or @docker/NAME"),
}


@pytest.mark.parametrize(("name", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_mistake_names_the_key_the_value_and_accepted_values(name, value, message):
    assert message in mistakes_in({name: value, "theirs": object()})[name]


ACCEPTED = {
    "a ready profile": {"numaforge_profile": "training"},
    "a file": {"numaforge_profile": Path("profiles/training.yaml")},
    "a profile in place": {"numaforge_profile": {"extends": "training"}},
    "settings": {"numaforge_rollout": {"max_unavailable": "10%"}},
    "what a run keeps itself": {"numaforge_plan": object(), "numaforge_topology": object()},
    "not said": {datum.name: None for datum in TABLE},
    "data of others": {"role": 5, "kubelet_owner": ["x"]},
    "a login for Ansible, too": {"ansible_host": "10.0.0.7", "ssh_hostname": "10.0.0.7"},
    "Ansible's data without a value": {"ansible_ssh_common_args": "", "ansible_port": None},
    "SSH in Ansible's words": {"ansible_connection": "ssh"},
    "what no login needs": {"ansible_become": True, "ansible_python_interpreter": "/usr/bin/python3"},
}


@pytest.mark.parametrize("data", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted_data_has_no_mistakes(data):
    assert mistakes_in(data) == {}


MISSPELT = {
    "a letter left out": ({"ssh_prt": 2222}, "ssh_port"),
    "two letters exchanged": ({"ssh_prot": 2222}, "ssh_port"),
    "a letter left out beside the right one": ({"ssh_usr": "ubuntu", "ssh_user": "root"}, "ssh_user"),
    "the beginning alone": ({"ssh_pass": "x"}, "ssh_password"),
    "the name that Ansible has": ({"ssh_host": "10.0.0.1"}, "ssh_hostname"),
    "a global argument of pyinfra": ({"_sdo": True}, "_sudo"),
    "a global argument without its underscore": ({"sudo": True}, "_sudo"),
    "ours without its prefix": ({"profile": "training"}, "numaforge_profile"),
    "ours without its prefix and a letter": ({"profle": "training"}, "numaforge_profile"),
    "settings without their prefix": ({"rollout": {"max_unavailable": 1}}, "numaforge_rollout"),
    "a mistake in the prefix": ({"numafrge_profile": "training"}, "numaforge_profile"),
    "seconds of the kubelet": ({"kubelet_start_secs": 60}, "kubelet_start_seconds"),
}


def noticed(*data: dict[str, object], group: dict[str, object] | None = None) -> list[str]:
    """Return what is said of hosts gpu-1, gpu-2 ... with these data."""
    named = [(f"gpu-{number}", each) for number, each in enumerate(data, 1)]
    return notices(Inventory((named, {}), nodes=([name for name, _ in named], group or {})))


@pytest.mark.parametrize(("data", "meant"), MISSPELT.values(), ids=MISSPELT)
def test_unknown_host_data_is_reported_with_suggestion(data, meant):
    name = next(iter(data))
    said = f"host data {name}: neither numaforge nor pyinfra reads it; did you mean {meant}?"
    assert noticed(data) == [f"gpu-1: {said}"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ansible_become", "; a user other than root uses sudo"),
        ("ansible_python_interpreter", "; a host needs no Python"),
        ("ansible_shell_type", ""),
    ],
)
def test_other_ansible_data_are_reported(name, why):
    assert noticed({name: True}) == [f"gpu-1: host data {name}: is Ansible's, and not read{why}"]


def test_hosts_with_the_same_mistake_are_named_together():
    said = noticed({"ssh_prt": 1}, {"ssh_prt": 2}, {}, {"ssh_prt": 4, "_sdo": True})
    assert [each.partition(":")[0] for each in said] == ["gpu-4", "gpu-[1-2,4]"]
    assert [each.partition(":")[0] for each in noticed({}, {}, group={"ssh_usr": "ubuntu"})] == ["gpu-[1-2]"]


@pytest.mark.parametrize("word", ["no", "False", "off", "0"])
def test_text_that_enables_a_pyinfra_switch_is_reported(word):
    said = f"host data _sudo: the text {word!r} turns it on, as any word does; write False"
    assert noticed({"_sudo": word}, {"_sudo": False}, {"_sudo": word}) == [f"gpu-[1,3]: {said}"]


def test_names_that_share_an_address_are_reported():
    same = {"ssh_hostname": "10.0.0.7"}
    assert noticed(same, same, {}) == ["gpu-[1-2]: all have the address 10.0.0.7: name a host once"]
    assert noticed({"ssh_hostname": "gpu-2"}, {}) == [
        "gpu-[1-2]: all have the address gpu-2: name a host once"
    ]


NOT_NOTICED = {
    "what is read": {datum.name: datum.neutral for datum in TABLE},
    "every global argument of pyinfra": dict.fromkeys(all_argument_meta, True),
    "a switch of pyinfra that is on": {"_sudo": "yes", "_use_sudo_login": True},
    "a user with such a name": {"_sudo_user": "no"},
    "words of an admin": {
        "hostname": "gpu-1",
        "port": 1,
        "user": "x",
        "role": "x",
        "env": "prod",
        "serial": "x",
        "timeout": 9,
        "node": "x",
        "image": "x",
        "site": "x",
    },
    "a helper of group data": {"_password": "x", "_user": "x", "_shell": "sh"},
    "many of what one is read of": {"ssh_users": ["a", "b"], "ssh_keys": ["ssh-ed25519 AAAA"]},
    "a profile of their own beside ours": {"profile": "blue", "numaforge_profile": "training"},
    "an address of their own": {"ssh_hostname": "10.0.0.7"},
    "what is refused": {"numaforge_profle": "training"},
}


def test_hosts_sharing_an_address_by_port_are_not_reported():
    assert noticed({"ssh_hostname": "nat", "ssh_port": 1}, {"ssh_hostname": "nat", "ssh_port": 2}) == []


@pytest.mark.parametrize("data", NOT_NOTICED.values(), ids=NOT_NOTICED)
def test_custom_admin_data_are_not_reported(data):
    assert noticed(data) == []


@pytest.mark.parametrize("datum", TABLE, ids=lambda datum: datum.name)
def test_replacement_for_bad_value_has_pyinfra_type(datum):
    from pyinfra.connectors.ssh import ConnectorData

    if datum.name.startswith("ssh_"):
        kind = ConnectorData.__annotations__[datum.name]
        assert type(datum.neutral).__name__ == getattr(
            kind, "__forward_arg__", getattr(kind, "__name__", kind)
        )
