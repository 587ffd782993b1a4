"""numaforge installed from its wheel, outside of the repository."""

from pathlib import Path

import pytest

from tests.fixtures import wheel
from tests.ssh.conftest import port as port
from tests.ssh.conftest import start_sandbox as start_sandbox


@pytest.fixture(scope="session")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel.installed(tmp_path_factory)
