"""`numaforge rollout` with a real pyinfra and a real kubectl, against an API server in memory.

The hosts are this machine, which says what the test wants it to say, and ports where nothing listens.
"""

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from numaforge import cli
from numaforge.rollout.forks import forks
from numaforge.rollout.lead import ROLLOUT, STATE, STOP
from numaforge.rollout.names import ENDED
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.record import ABORT, RECORD
from numaforge.rollout.runner import this_runner
from numaforge.rollout.shards import FAR, Stage, shard_of
from numaforge.rollout.slots import NODE, NODE_UID, SLOT
from tests.fixtures.api_server import LEASES, ApiServer, running_api_server
from tests.fixtures.processes import Hold, gone_within, writing_below
from tests.fixtures.tables import cases

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")

HERE = "@local"
DEAD = f"{this_runner()}0"
LIVING = "bob@elsewhere/boot/7.7"
_DEPLOY = """
from pathlib import Path
from pyinfra import host
from numaforge.rollout import events

said = host.data.get("said") or {}
if host.state.check_for_changes:
    for event in said.get("dry", ()):
        events.record(event.pop("kind"), host.name, **event)
else:
    with Path(host.data.get("runs")).open("a") as runs:
        print(host.data.get("numaforge_rollout_run"), file=runs)
    for event in said.get("run", ()):
        events.record(event.pop("kind"), host.name, **event)
    if hold := host.data.get("hold"):
        from tests.fixtures.processes import await_release
        await_release(Path(hold))
    assert not said.get("fails")
"""


@dataclass
class Site:
    """An inventory, a deploy, and the cluster that they belong to."""

    folder: Path
    api: ApiServer
    capture: pytest.CaptureFixture[str]
    hosts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def runs(self) -> list[str]:
        """What each of the hosts' runs was told to be."""
        path = self.folder / "runs"
        return path.read_text().splitlines() if path.exists() else []

    def here(
        self,
        node: str = "n1",
        *,
        ending: str = "done",
        restarts: bool = True,
        labels: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        **data: Any,
    ) -> None:
        """Have this machine be a node, whose run ends so; `options` are more than those of every test.

        No run here verifies anything: whether the suite could is asked in one test alone.
        """
        common = {"kubeconfig": str(self.api.kubeconfig), "canaries": 0, "slot_timeout": 10, "verify": False}
        said = RolloutOptions(**{**common, "max_unavailable": "2", **(options or {})}).model_dump()
        outlook = {
            "kind": "outlook",
            "node": node,
            "access": {"host": HERE, "pin": "", "addresses": [], "names": [], "here": True},
            "joined": True,
            "restarts": restarts,
            "sentences": ["it changes"],
            "allocatable": {},
            "labels": dict(labels or {}),
            "unreadable": "",
            "options": said,
        }
        outcome = {"kind": "outcome", "ending": ending, "reason": f"it is {ending}", "details": []}
        self.host(HERE, said={"dry": [outlook], "run": [outcome]}, **data)

    def gone(self, name: str = "gone") -> None:
        """Have a host where nothing listens."""
        self.host(name, ssh_hostname="127.0.0.1", ssh_port=1, ssh_strict_host_key_checking="off")

    def host(self, name: str, **data: Any) -> None:
        settings = {"kubeconfig": str(self.api.kubeconfig)}
        common = {"runs": str(self.folder / "runs"), "numaforge_rollout": settings}
        self.hosts.append((name, {**common, **data}))

    def command(self, verb: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Run a command; return its exit code, its last line of JSON, and what it said on stderr."""
        inventory, deploy = self.folder / "inventory.py", self.folder / "deploy.py"
        inventory.write_text(f"nodes = {self.hosts!r}\n")
        deploy.write_text(_DEPLOY)
        code = cli.run(["rollout", verb, "-o", "json", "--deploy", str(deploy), *arguments, str(inventory)])
        return code, *self._said()

    def status(self) -> tuple[int, dict[str, Any], str]:
        """Run `status`."""
        return cli.run(["rollout", "status", "-o", "json", *self.login]), *self._said()

    @property
    def login(self) -> list[str]:
        return ["--kubeconfig", str(self.api.kubeconfig)]

    def _said(self) -> tuple[dict[str, Any], str]:
        out, err = self.capture.readouterr()
        text = out if out.startswith("{\n") else (out.splitlines() or ["{}"])[-1]
        return json.loads(text), err


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Site]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with running_api_server(tmp_path) as api:
        api.add_node("n1")
        yield Site(tmp_path, api, capfd)
    assert gone_within(lambda: writing_below(tmp_path)), "runs are left that no process waits for"


def record(runner: str = DEAD, phase: str = "applying", **changes: object) -> str:
    document = {"runner": runner, "phase": phase, "was_unschedulable": False, "transaction": "t1"}
    return json.dumps({**document, "rollout": "default", "version": 1, **changes})


def in_the_middle(site: Site, node: str = "n1", runner: str = DEAD, slot: str | None = "1") -> None:
    """Have a node in the middle of a roll-out, with a slot."""
    if node not in site.api.nodes:
        site.api.add_node(node)
    site.api.add_record(node, record(runner), runner)
    if slot is not None:
        site.api.add_lease(f"{SLOT}{slot}", runner, **{NODE: node, NODE_UID: f"uid-{node}"})


# ---- a host that does not answer ----


def test_plan_names_unreachable_and_refused_hosts_and_shows_the_others(site):
    site.gone()
    refused(site)
    site.here()
    code, document, _ = site.command("plan")
    assert (code, [node["node"] for node in document["nodes"]]) == (0, ["n1"])
    assert "cannot connect" in document["silent"]["gone"]
    assert "ssh_port" in document["refused"]["bad"]


@pytest.mark.variants(1)
@pytest.mark.parametrize("verb", ["run", "resume"])
def test_report_names_unreachable_hosts_and_the_others_continue(site, verb):
    site.gone()
    site.here(options={"verify": True})
    code, report, _ = site.command(verb)
    assert (code, report["exit_code"]) == (6, 6)
    assert report["nodes"][HERE]["ending"] == "done"
    assert "cannot connect" in report["unreachable"]["gone"]


@pytest.mark.variants(1)
@pytest.mark.parametrize("verb", ["plan", "run", "resume"])
def test_all_hosts_are_named_when_none_is_reachable(site, verb):
    site.gone()
    site.gone("away")
    code, _, said = site.command(verb)
    assert code == 6
    assert "away,gone did not answer: cannot connect" in said


@pytest.mark.long
def test_refused_host_is_named_beside_an_unreachable_host(site):
    site.gone()
    site.host(HERE, said={"dry": [{"kind": "refused", "message": "no such profile"}]})
    code, _, said = site.command("plan")
    assert code == 2
    assert "@local: no such profile" in said


def test_failed_deploy_does_not_count_as_an_unreachable_host(site):
    site.host(HERE, said=3)
    code, _, said = site.command("plan")
    assert code == 2
    assert "no host could be asked what it needs" in said


# ---- the report ----


def lead_is(site: Site, holder: str) -> None:
    site.api.leases[f"{ROLLOUT}default"]["spec"]["holderIdentity"] = holder
    site.api.renew(f"{ROLLOUT}default")


def ending_of(site: Site) -> Callable[[str, str], int | None]:
    """Return what refuses every write of how the roll-out has ended."""

    def refuse(method: str, path: str) -> int | None:
        return 503 if method in ("PUT", "GET") and site.runs and path.startswith(LEASES) else None

    return refuse


def test_report_is_shown_when_the_api_server_is_down_at_the_end(site):
    site.here()
    site.api.refuse = ending_of(site)
    code, report, _ = site.command("run")
    assert (code, report["exit_code"]) == (0, 0)
    assert report["nodes"][HERE]["ending"] == "done"
    assert "the cluster does not know that it has ended" in report["notes"][0]
    assert "rollout resume" in report["notes"][0]


@pytest.mark.variants(1)
@pytest.mark.parametrize(("ending", "exit_code"), [("done", 0), ("rolled-back", 4), ("held", 5)])
def test_report_is_shown_after_losing_the_lease(site, ending, exit_code):
    site.here(ending=ending)
    taken = []

    def take(method: str, path: str) -> int | None:
        if site.runs and not taken and path.startswith(LEASES):
            taken.append(path)
            lead_is(site, LIVING)
        return None

    site.api.refuse = take
    code, report, _ = site.command("run")
    assert (code, report["exit_code"]) == (exit_code, exit_code)
    assert report["nodes"][HERE]["ending"] == ending
    assert f"{LIVING} leads it now" in report["notes"][0]


def in_place(site: Site, **changes: Any) -> None:
    """Have this machine be a node whose pods stay, and whose run says and does no more than that."""
    site.here(restarts=False)
    said = site.hosts[0][1]["said"]
    said["dry"][0] |= changes
    said["run"] = []


@pytest.mark.long
def test_silent_end_of_an_in_place_run_is_a_failure(site):
    in_place(site)
    site.hosts[0][1]["said"]["fails"] = True
    code, report, _ = site.command("run")
    assert (code, report["exit_code"], report["counts"]) == (5, 5, {"held": 1})
    assert HERE in report["failed"]


def test_refusal_before_an_in_place_change_blocks_the_host(site):
    in_place(site)
    site.hosts[0][1]["said"]["run"] = [{"kind": "refused", "message": "the suite cannot log in"}]
    code, report, _ = site.command("run")
    assert (code, report["nodes"][HERE]["ending"]) == (3, "blocked")
    assert report["nodes"][HERE]["reason"] == "the suite cannot log in"


def test_refusal_after_a_change_began_is_a_failure(site):
    in_place(site)
    progress = {"kind": "progress", "phase": "changes", "waits_for": []}
    site.hosts[0][1]["said"]["run"] = [progress, {"kind": "refused", "message": "what follows failed"}]
    assert site.command("run")[1]["nodes"][HERE]["ending"] == "held"


@pytest.mark.long
def test_error_after_an_in_place_change_is_a_failure(site):
    site.here(restarts=False)
    site.hosts[0][1]["said"]["fails"] = True
    code, report, _ = site.command("run")
    assert (code, report["nodes"][HERE]["ending"]) == (5, "held")
    assert report["nodes"][HERE]["reason"].startswith("it is done; its run ended with")


def test_unchanged_host_is_reported_without_a_run(site):
    in_place(site, changes=False)
    code, report, _ = site.command("run")
    assert (code, report["without_restart"], site.runs) == (0, [HERE], [])


# ---- hosts outside a cluster ----


def outside(site: Site, **changes: Any) -> None:
    """Have this machine be a host that is no Node, and that reboots for its change."""
    site.here()
    site.hosts[0][1]["said"]["dry"][0] |= {"joined": False, "restarts": False, "reboots": True, **changes}


@pytest.mark.variants(1)
@cases(
    "said, arguments, code",
    {
        "nobody says how many: refused": ([], [], 2),
        "its data or the command line say how many": (["max_unavailable"], [], 0),
    },
)
def test_host_outside_a_cluster_reboots_only_with_max_unavailable_set(site, said, arguments, code):
    outside(site, said=said)
    found, _, error = site.command("run", *arguments)
    assert (found, bool(site.runs)) == (code, code == 0)
    assert ("--max-unavailable" in error) is (code != 0)


@pytest.mark.long
def test_host_outside_a_cluster_without_reboot_needs_no_maximum(site):
    outside(site, reboots=False)
    code, report, _ = site.command("run")
    assert (code, report["nodes"][HERE]["ending"]) == (0, "done")


# ---- one refused host ----


def refused(site: Site, name: str = "bad") -> None:
    """Have a host whose data are not accepted."""
    site.host(name, ssh_port="twenty-two")


@pytest.mark.long
def test_refused_host_is_reported_and_the_others_continue(site):
    refused(site)
    site.here()
    code, report, _ = site.command("run")
    assert (code, report["exit_code"], report["counts"]) == (3, 3, {"refused": 1, "done": 1})
    assert "ssh_port" in report["refused"]["bad"]


def test_rollout_without_any_known_node_does_not_begin(site):
    site.here("unknown")
    code, _, said = site.command("run")
    assert (code, site.runs) == (2, [])
    assert "the cluster knows no node unknown" in said


@pytest.mark.variants(1)
@pytest.mark.parametrize("lost", [refused, Site.gone], ids=["is refused", "does not answer"])
def test_unavailable_canary_stops_the_rollout_before_it_begins(site, lost):
    lost(site, "canary")
    site.here(options={"canary_hosts": ["canary"]})
    code, _, said = site.command("run")
    assert (code, site.runs) == (2, [])
    assert "canary: it is a canary and cannot be changed" in said


@pytest.mark.variants(1)
@pytest.mark.parametrize(("limit", "ending"), [(0, None), (1, "done")])
def test_refused_hosts_count_as_blocked(site, limit, ending):
    refused(site)
    site.here(options={"max_blocked": limit})
    code, report, _ = site.command("run")
    assert code == 3
    assert report["nodes"].get(HERE, {}).get("ending") == ending


def run_meanwhile(site: Site, act: Callable[[threading.Event], None]) -> tuple[int, dict[str, Any]]:
    """Roll out to a host that does not end, and act once its run has begun; the event says it is over."""
    hold = Hold(site.folder / "hold")
    site.here(hold=str(hold.path))
    stop = threading.Event()

    def begun() -> None:
        while not site.runs and not stop.wait(0.05):
            pass
        act(stop)

    thread = threading.Thread(target=begun)
    thread.start()
    try:
        code, report, _ = site.command("run")
    finally:
        stop.set()
        thread.join()
        hold.release()
    return code, report


def test_second_interrupt_leaves_nodes_under_way_and_names_them(site):
    def interrupt(stop: threading.Event) -> None:
        while not stop.wait(0.3):
            os.kill(os.getpid(), signal.SIGINT)
            if stop.wait(2.5):
                return

    code, report = run_meanwhile(site, interrupt)
    assert (code, report["stopped"]) == (5, "interrupted")
    assert report["under_way"] == {HERE: "left to itself, and it ends by itself"}


def test_killed_run_starter_leaves_started_runs_and_reports_them(site):
    code, report = run_meanwhile(site, lambda _: os.kill(forks().pid, signal.SIGKILL))
    assert code == 5
    assert "the process that starts runs of pyinfra has ended" in report["stopped"]
    assert "`numaforge rollout resume`" in report["stopped"]
    assert report["under_way"] == {HERE: "left to itself, and it ends by itself"}


# ---- abort ----


def result(site: Site, node: str, ending: str) -> None:
    """Have the process that is at work on a node end its roll-out."""
    site.api.add_record(node, record(LIVING, ending=ending, reason="as asked"), **{ENDED: ending})


def renew_all(site: Site, path: str) -> None:
    """Have whoever holds a Lease live: it is renewed between two looks at the nodes."""
    if path.startswith("/api/v1/nodes?"):
        for name in site.api.leases:
            site.api.renew(name)


def living(site: Site, nodes: Mapping[str, str]) -> Callable[[str, str], int | None]:
    """Have processes live that undo their nodes once they hear of it, each with the ending given."""

    def live(method: str, path: str) -> int | None:
        renew_all(site, path)
        for node, ending in nodes.items():
            if method == "GET" and ABORT in site.api.record_annotations(node):
                result(site, node, ending)
        if method == "GET" and all('"ending"' in site.api.record_annotations(node)[RECORD] for node in nodes):
            for lease in site.api.leases.values():
                if STOP in lease["metadata"]["annotations"]:
                    lease["spec"]["holderIdentity"] = ""
        return None

    return live


def test_abort_asks_a_live_runner_to_stop_without_contacting_hosts(site):
    site.gone("n1")
    site.api.add_lease(f"{ROLLOUT}default", LIVING)
    in_the_middle(site, runner=LIVING)
    site.api.refuse = living(site, {"n1": "aborted"})
    code, report, said = site.command("abort")
    assert (code, report["nodes"]["n1"]["ending"]) == (0, "aborted")
    assert f"{LIVING} was asked to stop" in said
    assert not list(site.folder.rglob("survey.log"))


@pytest.mark.variants(1)
@pytest.mark.parametrize("slot", ["1", None], ids=["its runner is dead", "its slot was taken by force"])
def test_abort_takes_over_a_node_without_a_live_runner(site, slot):
    site.gone()
    site.here(ending="aborted")
    site.host("refused", ssh_hostname="127.0.0.1", ssh_port=2)
    in_the_middle(site, slot=slot)
    code, report, _ = site.command("abort")
    assert (code, report["nodes"]) == (
        0,
        {"n1": {"ending": "aborted", "reason": "it is aborted", "details": []}},
    )
    assert "cannot connect" in report["unreachable"]["gone"]
    assert "'begins': False" in site.runs[0]


def test_abort_holds_a_node_with_unreachable_host_and_undoes_the_others(site):
    site.gone("n2")
    site.here(ending="aborted")
    in_the_middle(site)
    in_the_middle(site, "n2", slot="2")
    code, report, _ = site.command("abort")
    assert code == 5
    assert {node: outcome["ending"] for node, outcome in report["nodes"].items()} == {
        "n1": "aborted",
        "n2": "held",
    }
    assert "Abort again once its host answers" in report["nodes"]["n2"]["reason"]


@pytest.mark.long
def test_abort_leaves_other_rollouts_alone(site):
    site.here(ending="aborted")
    in_the_middle(site)
    code, _, _ = site.command("abort", "--name", "another")
    assert (code, ABORT in site.api.record_annotations("n1")) == (0, False)


@pytest.mark.long
def test_abort_returns_and_names_a_process_still_at_work(site):
    site.gone()
    in_the_middle(site, runner=LIVING)

    def live(method: str, path: str) -> int | None:
        return renew_all(site, path)

    site.api.refuse = live
    code, report, _ = site.command("abort", "--timeout", "3")
    assert code == 5
    assert f"{LIVING} is still at work on it" in report["nodes"]["n1"]["reason"]


def test_abort_releases_the_lease_of_a_dead_rollout(site):
    site.here(ending="aborted")
    site.api.add_lease(f"{ROLLOUT}default", DEAD, **{STATE: '{"begun": "x"}'})
    code, _, _ = site.command("abort")
    lease = site.api.leases[f"{ROLLOUT}default"]
    assert (code, lease["spec"]["holderIdentity"]) == (0, None)
    assert json.loads(lease["metadata"]["annotations"][STATE]) == {"begun": "x", "ended": "aborted"}


def test_abort_without_a_readable_inventory_needs_a_kubeconfig(site):
    site.hosts = []
    code, _, said = site.command("abort")
    assert (code, "or give --kubeconfig" in said) == (2, True)
    in_the_middle(site)
    code, _, _ = site.command("abort", *site.login)
    assert ABORT in site.api.record_annotations("n1")
    assert code == 5


# ---- annotations that cannot be read ----


def test_unreadable_record_does_not_stop_other_nodes(site):
    site.here()
    site.api.add_node("n2")
    site.api.add_record("n2", "?")
    assert site.command("run")[0] == 0


@pytest.mark.variants(1)
@pytest.mark.parametrize("verb", ["run", "resume"])
def test_unreadable_record_blocks_its_node(site, verb):
    site.here()
    site.api.add_record("n1", '{"version": 2}')
    code, report, _ = site.command(verb)
    assert (code, report["nodes"][HERE]["ending"]) == (3, "blocked")
    assert "a newer release wrote the record" in report["nodes"][HERE]["reason"]


@pytest.mark.long
def test_plan_and_status_show_an_unreadable_record(site):
    site.here()
    site.api.add_record("n1", "?")
    code, document, _ = site.command("plan")
    assert (code, len(document["nodes"])) == (0, 1)
    assert "cannot be read" in document["nodes"][0]["in_the_way"][0]
    code, document, _ = site.status()
    assert code == 0
    assert "cannot be read" in document["nodes"][0]["trouble"]


@cases(
    "runner, phase, renewed, shown",
    {
        "whose process has ended": (DEAD, "applying", None, "applying, interrupted"),
        "that has been silent for long": (LIVING, "applying", 600, "applying, interrupted"),
        "that renews its slot": (LIVING, "applying", 5, "applying"),
        "that has left a node to a person": (DEAD, "held", None, "held"),
    },
)
def test_status_marks_changes_of_a_dead_or_silent_runner_interrupted(
    site, runner, phase, renewed, shown, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "300")
    in_the_middle(site, runner=runner)
    site.api.add_record("n1", record(runner, phase=phase), runner)
    if renewed is not None:
        moment = datetime.now(UTC) - timedelta(seconds=renewed)
        site.api.leases[f"{SLOT}1"]["spec"]["renewTime"] = moment.isoformat()
    assert cli.run(["rollout", "status", *site.login]) == 0
    said = " ".join(site.capture.readouterr().out.split())
    assert f"n1 {shown} " in said
    left = "change t1 undoes itself on the node unless it is confirmed; `numaforge rollout resume` goes on"
    assert (left in said) is ("interrupted" in shown)


def test_node_text_cannot_move_the_cursor(site):
    site.api.add_record("n1", record(runner="\x1b[2J[red]x", reason="\x1b]0;title\x07[bold]"))
    assert cli.run(["rollout", "status", *site.login]) == 0
    shown = site.capture.readouterr().out
    assert "[bold]" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


# ---- shards ----


def own_shard(count: int) -> int:
    return shard_of(HERE, count)


def test_shard_handles_its_hosts_and_reports_progress_on_its_lease(site, monkeypatch):
    monkeypatch.setenv("JOB_COMPLETION_INDEX", str(own_shard(5)))
    site.here()
    for number in range(20):
        site.gone(f"gone-{number}")
    gone = {f"gone-{number}" for number in range(20) if shard_of(f"gone-{number}", 5) == own_shard(5)}
    code, report, _ = site.command("run", "--shard", "$JOB_COMPLETION_INDEX/5")
    assert (code, report["nodes"][HERE]["ending"]) == (6, "done")
    assert report["unreachable"].keys() == gone
    lease = site.api.leases[f"{ROLLOUT}default.{own_shard(5)}-of-5"]
    state = json.loads(lease["metadata"]["annotations"][STATE])
    assert [stage["hosts_left"] for stage in state[FAR]["stages"].values()] == [0] * len(Stage)
    assert state[FAR]["failed"] == 0
    assert "ended" in state


@pytest.mark.variants(1)
@pytest.mark.parametrize("verb", ["plan", "run", "resume", "abort"])
def test_shard_without_hosts_succeeds(site, verb):
    site.here()
    code, _, _ = site.command(verb, "--shard", f"{(own_shard(2) + 1) % 2}/2")
    assert (code, site.runs) == (0, [])


@pytest.mark.variants(1)
@pytest.mark.parametrize("verb", ["plan", "run", "resume", "abort"])
def test_invalid_shard_is_reported_once(site, verb):
    site.here()
    code, _, said = site.command(verb, "--shard", "4/4")
    assert code == 2
    assert said.startswith("numaforge: --shard: '4/4' is not a shard: there is no shard 4 of 4")


# ---- what a MIG manager left behind ----

STUCK = {"nvidia.com/mig.config.state": "pending", "nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}


def mig_labels(site: Site, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = cli.run(["rollout", "mig-labels", "-o", "json", *site.login, *arguments])
    return code, json.loads(site.capture.readouterr().out)


def test_stale_mig_manager_labels_are_reported_and_repaired_on_request(site):
    site.api.add_node("n2")
    site.api.nodes["n1"]["metadata"]["labels"] = {**STUCK}
    code, document = mig_labels(site)
    assert code == 1
    assert [(one["node"], one["at_work"], one["repaired"]) for one in document["nodes"]] == [
        ("n1", False, False)
    ]
    assert site.api.nodes["n1"]["metadata"]["labels"] == STUCK
    code, document = mig_labels(site, "--repair")
    assert (code, [one["repaired"] for one in document["nodes"]]) == (0, [True])
    assert [*site.api.nodes["n1"]["metadata"]["labels"].values()] == ["failed", "true"]
    assert mig_labels(site) == (0, {"schema": 1, "nodes": []})


def test_node_with_a_possibly_active_mig_manager_is_not_repaired(site):
    site.api.nodes["n1"]["metadata"]["labels"] = {**STUCK}
    site.api.add_record("n1", record())
    code, document = mig_labels(site, "n1", "--repair")
    assert (code, [one["repaired"] for one in document["nodes"]]) == (1, [False])
    assert site.api.nodes["n1"]["metadata"]["labels"] == STUCK


@pytest.mark.long
def test_node_that_lacks_only_a_label_joins_the_rollout(site):
    site.here(restarts=False, labels={"numaforge.io/mig": "mig-enabled"})
    code, document, _ = site.command("plan")
    [node] = document["nodes"]
    assert (code, node["labels"]) == (0, {"numaforge.io/mig": {"now": None, "planned": "mig-enabled"}})
