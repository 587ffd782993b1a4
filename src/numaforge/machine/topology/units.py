"""systemd's view of units; the name and the arguments of a process are its own words."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from numaforge.lib.given import digits
from numaforge.lib.system_units import is_user_manager, pod_path, unit_of
from numaforge.machine.snapshot import catalogue
from numaforge.machine.snapshot.model import Snapshot


@dataclass(frozen=True)
class Units:
    """Main processes and control groups of units, by name; `known` is False where systemd was not asked."""

    known: bool = False
    main_pids: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    def unit_of(self, cgroup: str) -> str | None:
        """Return the unit of a process by its /proc/PID/cgroup; None where there is none or it is unknown."""
        return unit_of(cgroup, self.groups) or None

    def pod_path(self, cgroup: str) -> str:
        """Return the control group of a process in a pod of this host, "" for any other process."""
        return pod_path(cgroup, self.groups)

    def may_be_daemon(self, pid: int, cgroup: str) -> bool:
        """Say whether a process can be a daemon: its unit's main process, or one in a daemon's unit or a pod.

        Other processes of a unit may be a user's, as those of a login over SSH are in the unit of sshd.
        Without systemd's answer every process can be one.
        """
        unit = self.unit_of(cgroup) or ""
        main = self.main_pids.get(unit) == pid and not is_user_manager(unit)
        return not self.known or bool(self.pod_path(cgroup)) or main or unit in catalogue.UNITS


def read_units(snapshot: Snapshot) -> Units:
    """Return systemd's answer at the time of the snapshot."""
    answer = snapshot.commands.get("units")
    rows = [row for line in (answer or "").splitlines() if len(row := line.split(maxsplit=2)) == 3]
    return Units(
        known=answer is not None,
        main_pids={unit: number for unit, pid, _ in rows if (number := digits(pid))},
        groups={unit: group for unit, _, group in rows},
    )
