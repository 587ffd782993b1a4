"""A sandbox per test."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.ssh.sandbox import Sandbox, cannot_run, free_port, running_sandbox

StartSandbox = Callable[[Mapping[str, str]], Sandbox]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.ssh)


@pytest.fixture
def port() -> int:
    """The port on which the kubelet of a sandbox says that it is healthy."""
    return free_port()


@pytest.fixture
def start_sandbox(tmp_path: Path) -> Iterator[StartSandbox]:
    """Start sandboxes with the files that a test names, and end them with it."""
    reason = cannot_run()
    if reason:
        pytest.skip(reason)
    with ExitStack() as stack:
        count = iter(range(100))

        def start(files: Mapping[str, str]) -> Sandbox:
            folder = tmp_path / f"sandbox-{next(count)}"
            folder.mkdir()
            return stack.enter_context(running_sandbox(folder, files))

        yield start
