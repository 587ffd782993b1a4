"""Settings that hold for every test."""

import gc
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest
from hypothesis import settings

from lab.paths import REPOSITORY
from tests.fixtures.api_server import ApiServer, running_api_server

# jsonschema would import it: forty grammars, which take seconds, for formats that no test checks.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# Tests are not timed: a busy machine says nothing about the code. The same examples are tried in every run.
settings.register_profile("numaforge", deadline=None, derandomize=True, max_examples=50, print_blob=True)
settings.load_profile("numaforge")

# Tests that run side by side have a lab each: the first worker the usual one.
if (worker := os.environ.get("PYTEST_XDIST_WORKER", "gw0")) != "gw0":
    os.environ["NUMAFORGE_LAB_DIR"] = str(REPOSITORY / f".lab-{worker}")


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Have what was started ended, which no second signal interrupts."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


# A run in the background is ended with SIGTERM: beside.sh does so with every process of a part.
signal.signal(signal.SIGTERM, _interrupt)


# Unlike the SIG_IGN of nohup, a handler that does nothing is not inherited: tests start what can be hung up.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


# A test of these waits no longer than this for what never comes; pyproject.toml has it for the others.
LIMITS_S = {"long": 7200, "lab": 1800}


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Leave what most files and tables show once more to `make test-all`; give what takes long more time.

    With NUMAFORGE_ORDER, a number, files and the tests of each come in another order.
    """
    seen: Counter[tuple[Path, str]] = Counter()
    for item in items:
        if of := item.get_closest_marker("core"):
            if missing := [name for name in of.args if not hasattr(item.module, name)]:
                raise pytest.UsageError(f"{item.path}: pytestmark names no test of the file: {missing}")
            if item.originalname not in of.args:
                item.add_marker("long")
        if of := item.get_closest_marker("variants"):
            test = (item.path, getattr(item, "originalname", item.name))
            seen[test] += 1
            if seen[test] > of.args[0]:
                item.add_marker("long")
    if order := os.environ.get("NUMAFORGE_ORDER"):
        items[:] = _shuffled(items, random.Random(order))  # noqa: S311 (no secret)
    yield
    for item in items:
        limit = next((limit for mark, limit in LIMITS_S.items() if item.get_closest_marker(mark)), None)
        if limit is not None:
            item.add_marker(pytest.mark.timeout(limit))


def _shuffled(items: list[pytest.Item], dice: random.Random) -> list[pytest.Item]:
    """Return tests in another order; those of a file stay together, as they share what is slow to make."""
    of_file: dict[Path, list[pytest.Item]] = {}
    for item in items:
        of_file.setdefault(item.path, []).append(item)
    files = list(of_file.values())
    dice.shuffle(files)
    return [item for file in files for item in dice.sample(file, len(file))]


_kept: list[object] = []


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Keep gevent's loop alive in a process that a test has had patched, as whatever logs in to hosts does.

    A worker of xdist waits for its next test by a lock, which is gevent's from then on: with nothing else to
    wait for, gevent takes that for a wait without end, or never hears of it.
    """
    monkey = sys.modules.get("gevent.monkey")
    if not _kept and monkey is not None and monkey.is_module_patched("threading"):
        import gevent

        def live() -> None:
            while True:
                gevent.sleep(0.2)

        _kept.append(gevent.spawn(live))


gc.set_threshold(100_000)  # what collecting makes stays


def pytest_collection_finish() -> None:
    """Have the garbage collector leave ten thousand tests alone: going through them takes half a second."""
    gc.freeze()


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """An empty folder with a short name: the path of a socket has 107 bytes, which `tmp_path` may take."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    """As much of an API server as a real kubectl needs to look at nodes and Leases."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    with running_api_server(tmp_path) as server:
        yield server
