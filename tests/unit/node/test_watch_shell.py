"""What a node's watch makes of what it reads: drift, metrics, and what it says of what it cannot read."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaforge.roles.kernel_values.part import is_value
from numaforge.roles.kernel_values.sysctls import reaches
from numaforge.topology.ready import ready_machine
from tests.fixtures.watched_folder import WatchedFolder, pressure

BUSYBOX = (
    "awk",
    "base64",
    "cat",
    "chmod",
    "date",
    "grep",
    "head",
    "mkdir",
    "mv",
    "rm",
    "sed",
    "sha256sum",
    "tr",
    "xargs",
)


@pytest.fixture(params=["dash", "bash", "busybox sh"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> WatchedFolder:
    """A folder with each shell; busybox' with its other programs, too."""
    words = request.param.split()
    found = shutil.which(words[0])
    if found is None:
        pytest.skip(f"{words[0]} is not installed")
    if len(words) == 1:
        return WatchedFolder(tmp_path, (found,))
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in BUSYBOX:
        (programs / name).symlink_to(found)
    return WatchedFolder(tmp_path, (found, "sh"), path=str(programs))


def judged(node: WatchedFolder, row: tuple[str, ...], text: str | None) -> str:
    if text is not None:
        node.write("/sys/file", text)
    node.configure([row])
    done = node.run()
    assert (done.returncode, done.stderr) == (0, "")
    return node.drift().get("it", "none")


CASES = [
    pytest.param("is", "8", "8\n", "0", id="the value that is planned is no drift"),
    pytest.param("is", "8", "7\n", "1", id="another value is drift"),
    pytest.param("is", "8", "80\n", "1", id="a value that only begins alike is drift"),
    pytest.param("is", "8", "", "NaN", id="an empty file is unknown"),
    pytest.param("is", "8", None, "NaN", id="a file that is not there is unknown"),
    pytest.param(
        "is", "madvise", "always [madvise] never\n", "0", id="of several words the one in brackets counts"
    ),
    pytest.param(
        "is", "madvise", "[always] madvise never\n", "1", id="a word without brackets does not count"
    ),
    pytest.param("is", "4096 87380 6291456", "4096\t87380\t6291456\n", "0", id="the spacing is the kernel's"),
    pytest.param("least", "100", "1000\n", "0", id="more than the least is no drift"),
    pytest.param("least", "100", "100\n", "0", id="the least itself is no drift"),
    pytest.param("least", "100", "99\n", "1", id="less than the least is drift"),
    pytest.param(
        "has", "iommu=pt", "BOOT=/a:b quiet iommu=pt\n", "0", id="a parameter that is there is no drift"
    ),
    pytest.param("has", "iommu=p", "quiet iommu=pt\n", "1", id="a parameter that only begins alike is drift"),
    pytest.param("lines", "1", "Filename Type\n", "0", id="as many lines as planned are no drift"),
    pytest.param("lines", "1", "Filename Type\n/dev/sda2 partition\n", "1", id="a line more is drift"),
]


@pytest.mark.parametrize(("held", "wanted", "text", "drift"), CASES)
def test_a_file_of_the_kernel_is_held_to_the_plan(
    node: WatchedFolder, held: str, wanted: str, text: str | None, drift: str
) -> None:
    assert judged(node, (held, "it", wanted, "needed", "-", "/sys/file"), text) == drift
    assert ("numaforge_watch_unreadable" in node.metrics) is (drift == "NaN")


def test_a_file_that_need_not_be_there_is_neither_drift_nor_unknown(node: WatchedFolder) -> None:
    assert judged(node, ("is", "it", "8", "optional", "-", "/sys/file"), None) == "none"
    assert "numaforge_watch_unreadable" not in node.metrics


def test_a_path_may_hold_colons(node: WatchedFolder) -> None:
    path = "/sys/bus/pci/devices/0000:1b:00.0/numa_node"
    node.write(path, "1\n")
    node.configure([("is", "it", "1", "needed", "-", path)])
    node.run()
    assert node.drift() == {"it": "0"}


def test_one_cpu_of_many_that_differs_is_drift_and_one_that_cannot_be_read_is_unknown(
    node: WatchedFolder,
) -> None:
    path = "/sys/cpu{}/governor"
    for cpu in (0, 1, 2, 8, 10, 11):
        node.write(path.format(cpu), "performance\n")
    rows = [("counted", "cpu_governor", 'numaforge_cpu_governor{node="n",governor=', "0-2,8,10-11", path)]
    node.configure([*rows, ("is", "governor", "performance", "needed", "0-2,8,10-11", path)])
    node.run()
    assert node.drift() == {"governor": "0"}
    assert 'numaforge_cpu_governor{node="n",governor="performance"} 6\n' in node.metrics

    node.write(path.format(10), "powersave\n")
    said = node.run().stdout
    assert f"{node.folder}/sys/cpu10/governor: powersave, planned performance" in said
    assert node.drift() == {"governor": "1"}
    assert 'governor="performance"} 5\n' in node.metrics
    assert 'governor="powersave"} 1\n' in node.metrics

    (node.folder / "sys/cpu10/governor").unlink()
    node.run()
    assert node.drift() == {"governor": "NaN"}
    assert 'numaforge_watch_unreadable{node="node-1",what="cpu_governor"} 1\n' in node.metrics


def test_a_machine_without_frequency_scaling_counts_no_governors(node: WatchedFolder) -> None:
    node.configure(
        [("counted", "cpu_governor", "numaforge_cpu_governor{governor=", "0-255", "/sys/cpu{}/governor")]
    )
    node.run()
    assert "numaforge_cpu_governor" not in node.metrics
    assert "numaforge_watch_unreadable" not in node.metrics


def test_what_cannot_be_measured_is_unknown_and_never_0(node: WatchedFolder) -> None:
    rows = [
        ("measured", "hugepages_actual", "numaforge_hugepages_actual{}", "/sys/pages"),
        ("stalled", "pressure", "numaforge_pressure{kind=", "/sys/fs/cgroup/a/cpu.pressure"),
    ]
    node.configure(rows)
    node.write("/sys/pages", "many\n")
    node.run()
    assert not re.search("^numaforge_(hugepages|pressure)", node.metrics, re.MULTILINE)
    assert node.metrics.count("numaforge_watch_unreadable{") == 2

    node.write("/sys/pages", "8\n")
    node.write("/sys/fs/cgroup/a/cpu.pressure", pressure(1_500_000, 250_000))
    node.run()
    assert "numaforge_hugepages_actual{} 8\n" in node.metrics
    assert 'numaforge_pressure{kind="some"} 1.500000\n' in node.metrics
    assert 'numaforge_pressure{kind="full"} 0.250000\n' in node.metrics
    assert "numaforge_watch_unreadable" not in node.metrics


def test_what_is_measured_and_compared_is_unknown_to_both_when_it_cannot_be_read(node: WatchedFolder) -> None:
    pool = "/sys/nr_hugepages"
    rows = [("measured", "hugepages_actual", "numaforge_hugepages_actual{}", pool)]
    node.configure([*rows, ("is", "hugepages", "8", "needed", "-", pool)])
    node.run()
    assert node.drift() == {"hugepages": "NaN"}
    assert node.metrics.count("numaforge_watch_unreadable{") == 2


def test_a_file_of_ours_that_was_edited_or_is_gone_is_drift(node: WatchedFolder) -> None:
    profile: dict[str, Any] = {
        "name": "n",
        "tuning": {"sysctls": {"vm.swappiness": "1"}},
        "watch": {"enabled": True},
    }
    node.install(ready_machine("dgx-h100"), profile)
    node.run()
    assert set(node.drift().values()) == {"0"}
    edited = node.write("/etc/sysctl.d/90-numaforge.conf", "vm.swappiness = 60\n")
    assert f"{edited} was edited" in node.run().stdout
    edited.unlink()
    node.run()
    assert [what for what, value in node.drift().items() if value == "1"] == [
        "file:/etc/sysctl.d/90-numaforge.conf"
    ]


def test_the_journal_has_a_verdict_once_and_at_most_20_details(node: WatchedFolder) -> None:
    node.configure([("is", "governor", "performance", "needed", "0-99", "/sys/cpu{}/governor")])
    for cpu in range(100):
        node.write(f"/sys/cpu{cpu}/governor", "powersave\n")
    said = node.run().stdout.splitlines()
    assert said[0] == "True Drifted not as planned: governor"
    assert said[-1] == "and 80 more"
    assert len(said) == 22
    assert node.run().stdout == ""


def test_metrics_are_replaced_as_a_whole_and_everyone_may_read_them(node: WatchedFolder) -> None:
    node.configure([("text", "# HELP a b")])
    node.run()
    folder = node.folder / "metrics"
    assert [file.name for file in folder.iterdir()] == ["numaforge.prom"]
    assert (folder / "numaforge.prom").stat().st_mode & 0o777 == 0o644
    node.configuration.write_text("node\t\n")
    done = node.run()
    assert done.returncode != 0
    assert "has no node and no folder" in done.stderr
    assert "# HELP a b" in node.metrics


def test_a_login_that_is_not_there_is_named_once_and_is_no_failure(node: WatchedFolder) -> None:
    missing = node.folder / "kubelet.conf"
    node.configure([], kubeconfig=str(missing))
    if (curl := shutil.which("curl")) and node.path.endswith("programs"):
        (node.folder / "programs" / "curl").symlink_to(curl)
    first = node.run()
    assert first.returncode == 0
    assert f"the Node node-1 is not told: {missing} is not there: the kubelet has not joined" in first.stdout
    assert node.run().stdout == ""
    assert 'numaforge_watch_last_run_timestamp_seconds{node="node-1"}' in node.metrics


UNUSABLE = {
    "a program that logs in": ("users:\n- user:\n    exec:\n      command: aws\n", "has exec"),
    "several users": ("server: https://a\ntoken: x\ntoken: y\n", "has several logins"),
    "no https": ("server: http://a\ntoken: x\n", "names no https server"),
    "no credential": ("server: https://a\n", "neither a client certificate nor a token"),
    "a certificate that is gone": ("server: https://a\nclient-certificate: pem\n", "pem cannot be read"),
    "JSON": ('{"clusters": []}\n', "names no https server"),
}


@pytest.mark.parametrize("fault", UNUSABLE)
def test_a_login_of_another_form_is_named(fault: str, tmp_path: Path) -> None:
    node = WatchedFolder(tmp_path)
    if shutil.which("curl", path=node.path) is None:
        pytest.skip("curl is not installed")
    text, why = UNUSABLE[fault]
    node.configure([], kubeconfig=str(node.write("/etc/kubelet.conf", text)))
    done = node.run()
    assert done.returncode == 0
    assert why in done.stdout
    assert not [*(tmp_path / "run/numaforge/watch").glob("login*")], "no key stays"


LINES = st.text("ab12[] \t", max_size=12).filter(str.strip)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=40))
def test_a_node_and_a_verification_hold_a_value_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    node = WatchedFolder(tmp_path_factory.mktemp("node"))
    rows = []
    for number, (text, wanted) in enumerate(pairs):
        node.write(f"/sys/{number}", f"{text}\n")
        planned = " ".join(wanted.split())
        rows.append(("is", f"is{number}", planned, "needed", "-", f"/sys/{number}"))
        rows.append(("least", f"least{number}", planned, "needed", "-", f"/sys/{number}"))
    node.configure(rows)
    node.run()
    found = node.drift()
    for number, (text, wanted) in enumerate(pairs):
        planned = " ".join(wanted.split())
        assert (found[f"is{number}"] == "0") is is_value(text, planned), (text, wanted)
        assert (found[f"least{number}"] == "0") is reaches(text, planned), (text, wanted)
