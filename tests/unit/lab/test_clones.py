"""What builds the second scheduler: its own module file, with the Kubernetes that the lab has."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import kubelets
from lab.errors import LabError
from lab.second_scheduler import CLONES, Clones

MODULES = """\
module sigs.k8s.io/scheduler-plugins

require (
	github.com/example/beside v0.35.9
	k8s.io/api v0.35.99
	k8s.io/csi-translation-lib v0.32.5 // indirect
	k8s.io/kubernetes v1.35.99
)

replace k8s.io/kubelet => k8s.io/kubelet v0.35.99
"""


def clone(folder: Path, text: str = MODULES) -> Path:
    folder.mkdir()
    (folder / "go.mod").write_text(text)
    (folder / "go.sum").write_text("github.com/example/beside v0.35.9 h1:of-the-clone=\n")
    return folder


def test_kubernetes_is_of_the_release_that_the_lab_has_of_this_minor(tmp_path: Path) -> None:
    texts = Clones(clone(tmp_path / "plugins")).module_files()
    release = kubelets.version("1.35")
    patch = release.rpartition(".")[2]
    expected = MODULES.replace("v1.35.99", f"v{release}").replace("v0.35.99", f"v0.35.{patch}")
    assert texts["go.mod"] == expected
    assert "h1:of-the-clone=\n" in texts["go.sum"]
    assert f"k8s.io/kubernetes v{release} h1:" in texts["go.sum"]


def test_a_minor_that_the_lab_has_not_is_left_as_it_is(tmp_path: Path) -> None:
    text = MODULES.replace(".35.99", ".12.3")
    assert Clones(clone(tmp_path / "plugins", text)).module_files()["go.mod"] == text


def test_a_module_that_is_cloned_comes_from_its_clone(tmp_path: Path) -> None:
    beside = clone(tmp_path / "beside", "module github.com/example/beside\n")
    text = Clones(clone(tmp_path / "plugins"), (beside,)).module_files()["go.mod"]
    assert text.endswith(f"replace github.com/example/beside => {beside}\n")


def test_clones_are_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = clone(tmp_path / "plugins"), clone(tmp_path / "beside")
    monkeypatch.setenv(CLONES, f"{first}:{second}")
    assert Clones.named() == Clones(first, (second,))
    monkeypatch.setenv(CLONES, "")
    assert Clones.named() is None
    monkeypatch.setenv(CLONES, str(tmp_path))
    with pytest.raises(LabError, match=r"has no go\.mod"):
        Clones.named()
