"""What follows from looks at a kubelet: it runs without a break, but for one reboot of its node."""

from dataclasses import replace

from numaforge.change.transaction import Process
from numaforge.rollout.continuity import Continuity
from tests.fixtures.tables import cases

RUNS = Process("boot-1", 100, 0, 5)
OTHER = replace(RUNS, pid=101, restarts=1, since_us=9)
STOPPED = replace(RUNS, pid=0, state="inactive")
FAILED = replace(RUNS, pid=0, state="failed")
RESTARTING = replace(RUNS, pid=0, state="activating")
GOES_DOWN = replace(RUNS, going_down=True)
WENT_DOWN = replace(STOPPED, going_down=True)

COMES_UP = Process("boot-2", 0, 0, 0, state="inactive", started=False, queued=True)
NOT_STARTED = replace(COMES_UP, queued=False)
CAME_UP = Process("boot-2", 40, 0, 7)
CAME_UP_AGAIN = replace(CAME_UP, boot_id="boot-3")
RESTARTED_UP = Process("boot-2", 44, 3, 30)
LOOPS = replace(CAME_UP, pid=0, restarts=3, state="activating")

SAME, BEGINS, NOTHING, BOOTED = "same", "begins", "no answer", "booted"
ENDED, RESTARTED, REBOOTED = "ended by itself", "and was restarted", "rebooted again"
WAITS = "wrong so far"
WORKED = "it worked"


def verdicts(*looks: Process | float | str, settled: bool = True) -> list[str]:
    """Look at a kubelet again and again, every two seconds.

    A number is for seconds in which nobody looks, WORKED for evidence that the kubelet works.
    """
    continuity, at, found = Continuity(), 0.0, []
    for look in looks:
        if isinstance(look, float):
            at += look
            continue
        if isinstance(look, str):
            continuity = replace(continuity, came_up=True)
            continue
        seen = continuity.observe(look, at, settled=settled)
        continuity, at = seen.after, at + 2.0
        if seen.final:
            assert seen.wrong is not None
            found.append(
                next((word for word in (REBOOTED, RESTARTED, ENDED) if word in str(seen.wrong)), "stopped")
            )
            break
        words = (
            seen.booted and BOOTED,
            seen.no_answer and NOTHING,
            seen.begins and BEGINS,
            seen.wrong and WAITS,
        )
        found.append(" ".join(word for word in words if word) or SAME)
    return found


@cases(
    "looks, found",
    {
        "one process all the time": ([RUNS, RUNS], [BEGINS, SAME]),
        "systemd restarted it between two looks": ([RUNS, OTHER], [BEGINS, RESTARTED]),
        "systemd is about to restart it": ([RUNS, RESTARTING], [BEGINS, ENDED]),
        "it failed": ([RUNS, FAILED], [BEGINS, ENDED]),
        "it has failed before the first look": ([FAILED], [ENDED]),
        "it was stopped a moment ago": ([RUNS, STOPPED, 6.0, STOPPED], [BEGINS, WAITS, WAITS]),
        "it stays stopped": ([RUNS, STOPPED, 9.0, STOPPED], [BEGINS, WAITS, "stopped"]),
        "it was stopped and started": ([RUNS, STOPPED, OTHER], [BEGINS, WAITS, RESTARTED]),
        "a reboot in order": (
            [RUNS, GOES_DOWN, WENT_DOWN, 60.0, COMES_UP, COMES_UP, CAME_UP, CAME_UP],
            [BEGINS, NOTHING, NOTHING, f"{BOOTED} {NOTHING}", NOTHING, BEGINS, SAME],
        ),
        "a power cut": (
            [RUNS, 60.0, COMES_UP, CAME_UP, CAME_UP],
            [BEGINS, f"{BOOTED} {NOTHING}", BEGINS, SAME],
        ),
        "a boot nobody saw": ([RUNS, CAME_UP, CAME_UP], [BEGINS, f"{BOOTED} {BEGINS}", SAME]),
        "it was stopped by hand for a reboot": (
            [RUNS, STOPPED, WENT_DOWN, COMES_UP, CAME_UP],
            [BEGINS, WAITS, NOTHING, f"{BOOTED} {NOTHING}", BEGINS],
        ),
        "the first look is at a node that goes down": (
            [WENT_DOWN, COMES_UP, CAME_UP, CAME_UP],
            [NOTHING, NOTHING, BEGINS, SAME],
        ),
        "the first look is at a node that boots": ([COMES_UP, CAME_UP, CAME_UP], [NOTHING, BEGINS, SAME]),
        "a shutdown that was cancelled leaves it stopped": (
            [RUNS, WENT_DOWN, STOPPED, 9.0, STOPPED],
            [BEGINS, NOTHING, WAITS, "stopped"],
        ),
        "nothing starts it in the new boot": (
            [RUNS, NOT_STARTED, NOT_STARTED],
            [BEGINS, f"{BOOTED} {WAITS}", WAITS],
        ),
        "in a new boot it is restarted until its runtime answers": (
            [RUNS, LOOPS, CAME_UP, LOOPS, RESTARTED_UP, RESTARTED_UP],
            [BEGINS, f"{BOOTED} {WAITS}", BEGINS, WAITS, BEGINS, SAME],
        ),
        "it ends in the new boot in which it worked": (
            [RUNS, CAME_UP, WORKED, LOOPS],
            [BEGINS, f"{BOOTED} {BEGINS}", ENDED],
        ),
        "it is restarted in the new boot in which it worked": (
            [RUNS, CAME_UP, WORKED, RESTARTED_UP],
            [BEGINS, f"{BOOTED} {BEGINS}", RESTARTED],
        ),
        "another reboot": ([RUNS, CAME_UP, CAME_UP_AGAIN], [BEGINS, f"{BOOTED} {BEGINS}", REBOOTED]),
        "another reboot before the kubelet was started": (
            [RUNS, COMES_UP, CAME_UP_AGAIN],
            [BEGINS, f"{BOOTED} {NOTHING}", REBOOTED],
        ),
    },
)
def test_kubelet_continuity_verdicts(looks, found):
    assert verdicts(*looks) == found


@cases(
    "looks, found",
    {
        "another process": ([RUNS, OTHER, OTHER], [BEGINS, BEGINS, SAME]),
        "one that is down for a while": ([RUNS, FAILED, OTHER], [BEGINS, WAITS, BEGINS]),
        "any number of boots": (
            [RUNS, CAME_UP, CAME_UP_AGAIN],
            [BEGINS, f"{BOOTED} {BEGINS}", f"{BOOTED} {BEGINS}"],
        ),
    },
)
def test_restarts_and_boots_are_allowed_while_mig_manager_works(looks, found):
    assert verdicts(*looks, settled=False) == found


def test_kubelet_without_first_boot_report_may_still_start():
    seen = Continuity().observe(LOOPS, 0.0, reported=False)
    assert not seen.final
    assert seen.after.observe(RESTARTED_UP, 2.0).begins


def test_clock_change_does_not_count_as_restart():
    continuity = Continuity().observe(RUNS, 0.0).after
    assert continuity.observe(replace(RUNS, booted_at=10**9), 2.0).after == continuity
