"""What a host's kubelet is to be, and what it takes to get there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from numaforge import bundle
from numaforge.bundle import Change, FileContent
from numaforge.errors import HostError
from numaforge.hugepages import differing, moves
from numaforge.kernel_paths import hugepage_counts
from numaforge.kubelet.checkpoints import CPU_STATE_FILE, MEMORY_STATE_FILE
from numaforge.kubelet.config.flags import flag_value
from numaforge.planning.model import KubeletPlan, NodePlan
from numaforge.render import hugepage_files, kubelet_files
from numaforge.rollout.configz import KubeletDoor, kubelet_door
from numaforge.rollout.gate import Expected
from numaforge.rollout.transaction import Transaction, health_url
from numaforge.topology.model import NodeTopology

from .change import Outlook, check, outlook, with_pools
from .facts import KubeletFiles, KubeletQuestion, KubeletUnit

_STATE_FILES = (CPU_STATE_FILE, MEMORY_STATE_FILE)


@dataclass(frozen=True)
class Need:
    """What a host needs: the files that change, and the transaction that does it.

    `transaction` is None on a host without systemd, where files are written and that is all. `sentences` say
    what it does beside writing files, `moves` which pool of huge pages gets how many.
    """

    changed: tuple[Change, ...]
    transaction: Transaction | None
    sentences: tuple[str, ...]
    moves: tuple[str, ...] = ()

    @property
    def restarts(self) -> bool:
        """Whether the kubelet is restarted."""
        return self.transaction is not None and self.transaction.restart


@dataclass(frozen=True)
class Target:
    """The kubelet as planned for a host.

    `machine` is the host as it was detected. A start may take `start_seconds`, and the kubelet then has to
    stay healthy for `stable_seconds`.
    """

    plan: NodePlan
    kubelet: KubeletPlan
    machine: NodeTopology
    start_seconds: int = 120
    stable_seconds: int = 10

    @property
    def node(self) -> str:
        """The name under which the kubelet registers."""
        flags = self.machine.kubelet.flags if self.machine.kubelet else ()
        return (flag_value(flags, "hostname-override") or self.plan.hostname).lower()

    @property
    def joined(self) -> bool:
        """Whether the kubelet has a login to a cluster, so that pods may run on the host."""
        flags = self.machine.kubelet.flags if self.machine.kubelet else ()
        return flag_value(flags, "kubeconfig") is not None

    @property
    def expected(self) -> Expected:
        """What the cluster is to say of the node afterwards."""
        planned = self.plan.allocatable
        return Expected(self.kubelet.settings, planned.quantities if planned else {})

    @property
    def door(self) -> KubeletDoor:
        """Where the kubelet tells its own node what it runs with, which no plan changes."""
        return kubelet_door(self.machine.kubelet)

    @property
    def question(self) -> KubeletQuestion:
        """Which files and pools matter; what the detection saw a moment ago is not sent again."""
        install = self.machine.kubelet
        planned = [file.path for file in self.plan.files if file.role == "kubelet"]
        state_files = [f"{self.kubelet.root_dir}/{name}" for name in _STATE_FILES]
        boot_files, absent = hugepage_files(self.plan)
        planned += [*(file.path for file in boot_files), *absent]
        known = [file.text for file in boot_files]
        known += [file.text for file in kubelet_files(self.plan, install.config_text if install else None)]
        if install:
            known += [*install.drop_ins.values(), *install.state_files.values(), install.config_text or ""]
        return KubeletQuestion(
            tuple(dict.fromkeys([self.kubelet.config_file, *planned, *state_files])),
            self.kubelet.config_dir or (install.config_dir if install else None),
            tuple(known),
            tuple(hugepage_counts(self.plan)),
        )

    def need(self, found: KubeletFiles, unit: Callable[[], KubeletUnit]) -> Need | None:
        """Return what the host needs with these files and pools; None where it is as planned.

        `unit` asks systemd, and only where something changes. Pools, and the files that fill them at boot,
        are a kubelet's only while it may start at any moment. Raises KubeletConfigError for a configuration
        under which the kubelet would not start, HostError for a host without a way to ask for its health.
        """
        wanted = kubelet_files(self.plan, found.text(self.kubelet.config_file))
        changed = bundle.changes(wanted, (), found.files)
        boot_files = bundle.changes(*hugepage_files(self.plan), found.files)
        pools = differing(hugepage_counts(self.plan), found.pools)
        expected = self._outlook(found, wanted)
        if not changed and not boot_files and not pools and not expected.removals:
            return None
        check(expected)
        asked = unit()
        if asked.active_state is None:
            sentence = "no systemd here: the kubelet's files are written, nothing is restarted"
            return Need(changed, None, (sentence,)) if changed else None
        if not asked.may_start:
            boot_files, pools = (), {}
            if not changed and not expected.removals:
                return None
        lines = tuple(moves(pools, found.pools))
        transaction, sentences = self._transaction(changed + boot_files, pools, expected, asked)
        transaction = replace(transaction, planned_on=found.fingerprint)
        return Need(changed + boot_files, transaction, sentences, lines)

    def _outlook(self, found: KubeletFiles, wanted: Sequence[FileContent]) -> Outlook:
        drop_ins = {path: found.files[path].text for path in found.drop_ins}
        state_files = {
            name: text
            for name in _STATE_FILES
            if (text := found.text(f"{self.kubelet.root_dir}/{name}")) is not None
        }
        config = found.text(self.kubelet.config_file)
        machine = with_pools(self.machine, found.pools)
        return outlook(self.plan, machine, wanted, config, drop_ins, state_files)

    def _transaction(
        self, changed: Sequence[Change], pools: Mapping[str, int], expected: Outlook, unit: KubeletUnit
    ) -> tuple[Transaction, tuple[str, ...]]:
        restart = unit.runs and expected.needs_restart
        url = health_url(expected.after.effective)
        if restart and url and not unit.askers:
            raise HostError(
                "has none of curl, python3, wget and bash, so nobody could tell whether the kubelet comes up",
                remedy="install one of them",
            )
        removals = dict(expected.removals)
        sentences = [f"{path} is removed: {reason}" for path, reason in removals.items()]
        if restart:
            causes = [*expected.changed_settings, *(["hugepages"] if pools else [])] or ["its state files"]
            sentences.append(f"the kubelet restarts, because this changes: {', '.join(causes)}")
        elif unit.runs:
            sentences.append("the kubelet's effective settings stay the same: it is not restarted")
        else:
            sentences.append(f"the kubelet is {unit.active_state}, not running: configured, and not started")
        transaction = Transaction(
            id=f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
            unit=self.kubelet.unit,
            files=tuple(change.new for change in changed if change.new),
            absent=tuple(change.path for change in changed if change.new is None),
            invalid_state=removals,
            kept_state=tuple(
                path for name in _STATE_FILES if (path := f"{self.kubelet.root_dir}/{name}") not in removals
            ),
            pools=pools,
            health_url=url,
            restart=restart,
            start_seconds=self.start_seconds,
            stable_seconds=self.stable_seconds,
        )
        return transaction, tuple(sentences)
