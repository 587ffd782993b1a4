"""A host of each release for the tests of a module."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.roots import RELEASES, Release, UnavailableError, build
from tests.roots.host import Host, provisioned
from tests.ssh.sandbox import cannot_run

CHOSEN = os.environ.get("NUMAFORGE_ROOTS", " ".join(RELEASES)).split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="module", params=CHOSEN)
def release(request: pytest.FixtureRequest) -> Release:
    """A release whose root is in the cache by now."""
    reason = cannot_run()
    if reason:
        pytest.skip(reason)
    try:
        build(request.param)
    except UnavailableError as error:
        pytest.skip(str(error))
    return RELEASES[request.param]


@pytest.fixture(scope="module")
def host(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with provisioned(release, tmp_path_factory.mktemp(release.suite)) as host:
        yield host
