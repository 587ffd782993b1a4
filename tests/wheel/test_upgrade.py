"""The upgrade of docs/versions.md: a node of one version, in the hands of the next, and back."""

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from numaforge import __version__
from tests.fixtures.wheel import Admin, admin, build
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.site_runs import PLAN, PROFILE, data, inventory

NEXT = "1.1.0"
"""The version of the second wheel, which is this checkout's but for its number."""
VERIFY = "numaforge verify inventory.py -- -k 'file_content or kernel_value'"
SOURCES = ("deploys", "machines", "packaging", "profiles", "roles", "schemas", "src", "templates")
FILES = ("LICENSE", "README.md", "pyproject.toml")


@pytest.fixture(scope="module")
def next_venv(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the next version, and with the packages of the first one below it."""
    folder = tmp_path_factory.mktemp("next")
    source = folder / "source"
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, source / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy2(REPOSITORY / name, source / name)
    version = source / "src/numaforge/__init__.py"
    version.write_text(version.read_text().replace(__version__, NEXT))
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=120)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    below = sysconfig.get_path("purelib", "venv", {"base": str(venv)})
    (packages / "first.pth").write_text(f"{below}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(environment), "--quiet", "install", "--no-deps"]
    wheel = build("wheel", source, folder / "wheel")
    subprocess.run([*pip, "--no-index", "--ignore-installed", str(wheel)], check=True, timeout=120)
    return environment


def state(admin: Admin, folder: Path, *words: str) -> str:
    """Return what `numaforge apply` says of the node."""
    command = " ".join(("numaforge apply -o json", *words, "inventory.py 2>/dev/null"))
    document = json.loads(admin.succeed(command, folder))
    return str(document["hosts"]["gpu-01"]["state"])


@pytest.mark.long
def test_node_stays_as_planned_across_adjacent_versions(start_sandbox, port, venv, next_venv, tmp_path):
    node = start_kubelet(start_sandbox(kubeadm_files(port)), port)
    inventory(tmp_path, {"gpu-01": data(node)})
    first = admin(venv, tmp_path / "home", "")
    upgraded = Admin(first.home, (next_venv / "bin",))
    assert first.succeed("numaforge --version", tmp_path) == f"numaforge {__version__}\n"
    assert upgraded.succeed("numaforge --version", tmp_path) == f"numaforge {NEXT}\n"

    assert state(first, tmp_path, "--yes") == "changed"
    assert json.loads(node.path(PLAN).read_text())["written_by"] == f"numaforge {__version__}"

    upgraded.succeed(VERIFY, tmp_path)
    assert state(upgraded, tmp_path, "--yes") == "unchanged"

    more = {**PROFILE, "tuning": {**PROFILE["tuning"], "sysctls": {"vm.swappiness": "2"}}}
    inventory(tmp_path, {"gpu-01": data(node, more)})
    assert state(upgraded, tmp_path, "--yes") == "changed"
    assert json.loads(node.path(PLAN).read_text())["written_by"] == f"numaforge {NEXT}"
    first.succeed(VERIFY, tmp_path)
    assert state(first, tmp_path, "--yes") == "unchanged"
