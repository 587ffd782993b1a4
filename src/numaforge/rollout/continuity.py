"""Whether a kubelet has run without a break, except for one reboot of its node."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numaforge.change.transaction import Process


@dataclass(frozen=True)
class Mismatch:
    """Something that is not as predicted."""

    name: str
    predicted: str
    actual: str

    def __str__(self) -> str:
        return f"{self.name}: predicted {self.predicted}, found {self.actual}"


_STOPPED_SECONDS = 10.0  # so that `systemctl stop kubelet; reboot` counts as a reboot
_KUBELET = "the kubelet"


@dataclass(frozen=True)
class Continuity:
    """What has been observed of a kubelet so far: its `process` in the boot `boot_id`, and `reboots`.

    `stopped_at` is when it was first seen stopped, in the caller's seconds. Until it `came_up` in a new boot,
    it may exit and be restarted, as happens while its container runtime does not answer yet.
    """

    boot_id: str | None = None
    process: Process | None = None
    reboots: int = 0
    stopped_at: float | None = None
    came_up: bool = True

    def observe(
        self, process: Process, at: float, *, settled: bool = True, reported: bool = True
    ) -> Observation:
        """Judge the kubelet's process; unless `settled`, it may restart; having `reported`, it came up."""
        if process.going_down:
            return Observation(replace(self, stopped_at=None), no_answer="the node is going down")
        if self.boot_id is None:
            return Continuity(process.boot_id, came_up=reported)._in_this_boot(process, at, settled)
        if self.boot_id == process.boot_id:
            return self._in_this_boot(process, at, settled)
        if settled and self.reboots:
            rebooted = Mismatch("the node", "up", f"it rebooted again at {process.booted}")
            return Observation(self, wrong=rebooted, final=True)
        booted = Continuity(process.boot_id, reboots=self.reboots + settled, came_up=False)
        return replace(booted._in_this_boot(process, at, settled), booted=True)

    def _in_this_boot(self, process: Process, at: float, settled: bool) -> Observation:
        if process.runs:
            return self._running(process, settled and self.came_up)
        if not process.started:
            return self._not_started(process)
        return self._ended(process, at, settled and self.came_up)

    def _running(self, process: Process, settled: bool) -> Observation:
        if process == self.process:
            return Observation(replace(self, stopped_at=None))
        if self.process is None or not settled:
            return Observation(replace(self, process=process, stopped_at=None), begins=True)
        restarted = Mismatch(_KUBELET, "running without a break", "it ended by itself and was restarted")
        return Observation(self, wrong=restarted, final=True)

    def _not_started(self, process: Process) -> Observation:
        since = f"it has not been started since the node booted at {process.booted}"
        if process.queued:
            return Observation(self, no_answer=f"the kubelet: {since}")
        return Observation(self, wrong=Mismatch(_KUBELET, "running", since))

    def _ended(self, process: Process, at: float, settled: bool) -> Observation:
        if process.failed:
            ended = Mismatch(_KUBELET, "running", "it ended by itself")
            return Observation(self, wrong=ended, final=settled)
        since = at if self.stopped_at is None else self.stopped_at
        final = settled and at - since >= _STOPPED_SECONDS
        return Observation(
            replace(self, stopped_at=since),
            wrong=Mismatch(_KUBELET, "running", "it was stopped"),
            final=final,
        )


@dataclass(frozen=True)
class Observation:
    """What one look at a kubelet has shown: `wrong` (for good if `final`), or why it shows nothing.

    `after` is the state from now on. `booted`: in a boot not seen before. `begins`: another process counts.
    """

    after: Continuity
    no_answer: str = ""
    booted: bool = False
    begins: bool = False
    wrong: Mismatch | None = None
    final: bool = False
