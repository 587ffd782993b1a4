"""What several programs of the lab are built from is of one version, so that it is compiled once."""

from __future__ import annotations

import re

import pytest

from lab.gobuild import KUBERNETES, Component
from lab.shared_modules import SHARING, project

_REQUIRED = re.compile(r"^(?:require)?\s+(\S+) (v\S+)(?: // indirect)?$", re.MULTILINE)
_REPLACED = re.compile(r"^(?:replace)?\s+(\S+) => (\S+) (v\S+)$", re.MULTILINE)


def built_from(component: Component) -> dict[str, str]:
    """Return the version of each module that a module file names."""
    text = component.module_file.read_text()
    replaced = {path: version for path, other, version in _REPLACED.findall(text) if path == other}
    return {path: replaced.get(path, version) for path, version in _REQUIRED.findall(text)}


@pytest.mark.parametrize("component", SHARING, ids=lambda component: component.name)
def test_a_module_that_kubernetes_has_is_of_its_version(component: Component) -> None:
    kubernetes, own = built_from(KUBERNETES), built_from(component)
    shared = {path for path in kubernetes.keys() & own.keys() if not path.startswith(project(component))}
    assert len(shared) > 30
    assert {path: own[path] for path in shared} == {path: kubernetes[path] for path in shared}
