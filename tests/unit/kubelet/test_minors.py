"""What differs by minor is what the kubelet's sources say, and every place knows the newest minor."""

import json
import re
from collections.abc import Callable

import pytest

from lab import gobuild, kubelets, minors
from lab.paths import LAB, REPOSITORY
from numaforge.kubelet.admission import hint_work
from numaforge.kubelet_minors import tables
from numaforge.kubelet_minors.tables import state_at, states_at
from numaforge.kubelet_minors.versions import KNOWN_MINORS, LATEST_MINOR, OLDEST_MINOR


@pytest.mark.parametrize(
    ("minor", "state"),
    [
        pytest.param(28, None, id="before-the-first-change"),
        pytest.param(29, "alpha off", id="from-the-first-change-on"),
        pytest.param(30, "alpha off", id="until-the-next-change"),
        pytest.param(33, "ga on locked", id="from-the-next-change-on"),
        pytest.param(36, None, id="where-it-is-gone"),
    ],
)
def test_state_at_a_minor_follows_the_history(minor, state):
    assert state_at("29 alpha off, 33 ga on locked, 36 gone", minor) == state


def test_states_of_a_minor_exclude_later_and_removed_entries():
    assert states_at({"a": "28 string", "b": "31 bool", "c": "28 bool, 30 gone"}, 30) == {"a": "string"}


@pytest.fixture(scope="module")
def releases() -> list[minors.Release]:
    try:
        found = minors.releases(minors.module_cache())
    except minors.SourceError as error:
        pytest.skip(str(error))
    missing = [module for release in found for module in release.missing]
    if missing:
        pytest.skip(
            f"{len(missing)} modules are not in Go's module cache: {missing[0]}...; "
            "`python -m lab.minors --download`"
        )
    return found


def test_tables_match_the_kubelet_sources(releases):
    assert minors.TABLES.read_text(encoding="utf-8") == minors.tables(releases)


def _newest(names: list[str]) -> int:
    return max(int(minor) for name in names if (minor := name.rpartition("1.")[2]).isdigit())


def _recorded() -> int:
    record = json.loads((REPOSITORY / "docs/kubelets.json").read_text(encoding="utf-8"))
    return _newest(list(record["releases"]))


def _promised() -> int:
    """Return the newest minor that `make help` promises to build."""
    text = (LAB / "lab.mk").read_text(encoding="utf-8")
    return max(int(minor) for minor in re.findall(r"kubelets 1\.\d+ to 1\.(\d+)", text))


def _documented() -> int:
    """Return the oldest of the newest minors that the docs name: `1.28 to 1.36`."""
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    found = [
        re.findall(rf"1\.{OLDEST_MINOR} to 1\.(\d+)", page.read_text(encoding="utf-8")) for page in pages
    ]
    return min(int(minor) for minors_ in found for minor in minors_)


PLACES: dict[str, Callable[[], int]] = {
    "lab/minors.py: RELEASES (then run python -m lab.minors --download)": lambda: max(minors.RELEASES),
    "src/numaforge/kubelet_minors/tables.json (run python -m lab.minors)": lambda: max(tables.RELEASES),
    "lab/go: a module file to build the kubelet from": lambda: _newest(
        [folder.name for folder in (LAB / "go").glob("kube*-1.*")]
    ),
    "lab/kubelets.py: MINORS": lambda: _newest(list(kubelets.MINORS)),
    "lab/lab.mk: the help of kubelets": _promised,
    "README.md and docs/*.md: `1.28 to ...`": _documented,
}


@pytest.mark.parametrize("newest", PLACES.values(), ids=PLACES.keys())
def test_every_table_includes_the_latest_minor(newest):
    assert newest() == LATEST_MINOR


ONE_BEHIND: dict[str, Callable[[], int]] = {
    "lab/gobuild.py: KUBERNETES": lambda: _newest([gobuild.KUBERNETES.name]),
    "docs/kubelets.json (run make test-kubelets)": _recorded,
}


@pytest.mark.parametrize("newest", ONE_BEHIND.values(), ids=ONE_BEHIND.keys())
def test_lab_is_at_most_one_minor_behind(newest):
    assert newest() in (LATEST_MINOR - 1, LATEST_MINOR)


def test_every_known_minor_has_a_release():
    assert tuple(tables.RELEASES) == KNOWN_MINORS
    assert min(tables.RELEASES) == OLDEST_MINOR


@pytest.mark.parametrize("minor", kubelets.MINORS)
def test_lab_builds_the_release_of_the_tables(minor):
    component = next((LAB / "go").glob(f"kube*-{minor}/go.mod")).read_text(encoding="utf-8")
    release = re.search(r"k8s\.io/kubernetes v(\S+)", component)
    assert release[1] == tables.RELEASES[int(minor.rpartition(".")[2])]


def test_narrow_device_hints_start_at_the_minor_in_the_kubelet_source(releases):
    first = hint_work._FIRST_MINOR_WITH_NARROW_DEVICE_HINTS
    for release in releases:
        source = release.source("kubernetes", "pkg/kubelet/cm/devicemanager/topology_hints.go")
        assert "generateDeviceTopologyHints" in source
        assert ("deviceNUMANodes(" in source) == (release.minor >= first), release.number


def test_flag_of_unknown_type_is_named(releases):
    release = releases[-1]
    found = minors._FLAG.search('fs.Var(newkind.NewThing(&c.MaxPods), "new-flag", "")')
    assert found is not None
    with pytest.raises(minors.SourceError, match="--new-flag has a type that is not known"):
        release._flag(found)
