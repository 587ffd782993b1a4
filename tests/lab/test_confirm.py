"""A change is kept only once it was confirmed: with a real systemd, boot loader, clock and network."""

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.change.transaction import Transaction
from numaforge.roles.files import part as files
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.reboot import part as reboot
from tests.lab import transactions
from tests.lab.reboots import everything
from tests.lab.rollouts import policy
from tests.lab.transactions import OVER, STATIC, WAITS, boots, change, ended, put_back, status, until

CUTS_THE_NETWORK = "module_blacklist=virtio_net"
PROVES = "grep -qx 'prove kubelet' /var/lib/numaforge/txn/T1/state"


@pytest.fixture
def fresh(lab: Lab) -> Node:
    return put_back(lab)


@pytest.mark.long
def test_boot_without_network_is_undone_automatically(lab: Lab, fresh: Node) -> None:
    before = everything(fresh)
    cmdline = kernel_cmdline.part((CUTS_THE_NETWORK,), (CUTS_THE_NETWORK,), (), "grub")
    parts = (files.part([]), cmdline, reboot.part())
    transactions.begin(fresh, Transaction("T1", parts, confirm_seconds=20))
    transactions.until_through_boots(fresh, OVER)
    result = status(fresh).result
    assert result
    assert (result.outcome, result.reason.split(";")[0]) == (
        "rolled-back",
        "the change was not confirmed over a new connection within 20 s",
    )
    assert boots(fresh) == 2
    transactions.ready(lab, fresh)
    assert everything(fresh) == before


@pytest.mark.long
def test_clock_set_back_a_day_does_not_affect_a_change(fresh: Node) -> None:
    transactions.begin(fresh, change(fresh, STATIC))
    until(fresh, PROVES)
    fresh.run("date --set='1 day ago'")
    until(fresh, WAITS)
    assert ended(fresh).outcome == "applied"
    assert policy(fresh) == "static"


@pytest.mark.long
@pytest.mark.parametrize("at", [PROVES, WAITS], ids=["proves", "waits"])
def test_a_hangup_of_its_processes_is_none_of_a_change(fresh: Node, at: str) -> None:
    transactions.begin(fresh, change(fresh, STATIC))
    until(fresh, at)
    fresh.run("systemctl kill --kill-whom=all --signal=HUP numaforge-T1.service")
    assert ended(fresh).outcome == "applied"
    assert policy(fresh) == "static"
