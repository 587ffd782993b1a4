"""`deploys/bake.py` on a root of RPM packages: real rpm and dnf, and packages of the lab's own.

tests/roots has setfiles and dracut; only a real distribution shows SELinux in force, and packages' scripts.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from lab.roots import UnavailableError, build_rpm
from tests.lab.bakes import PROGRAMS, bake, refused

pytestmark = pytest.mark.long
WISH: dict[str, object] = {
    "boot": {"profile": "training"},
    "packages": {"kubelet": "1.36.2-*", "containerd": "*"},
    "enable": ["containerd.service", "kubelet.service"],
    "sysprep": True,
}
HOME = "usr/lib/numaforge"
"""Where the program lies in an image whose /opt leads to /var."""
SETFILES = '#!/bin/sh\necho "$*" > /var/labelled\n'


def copy(folder: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root enters a root file system")
    try:
        kept = build_rpm()
    except UnavailableError as error:
        pytest.skip(str(error))
    root = folder / "rpm"
    subprocess.run(["cp", "-a", str(kept), str(root)], check=True)
    return root


def inside(root: Path, *command: str) -> str:
    return subprocess.run(["chroot", root, *command], capture_output=True, text=True, check=True).stdout


def verified(root: Path) -> subprocess.CompletedProcess[str]:
    command = [PROGRAMS / "numaforge", "verify", "--image", str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def baked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root as bootc has it: /opt leads to /var."""
    root = copy(tmp_path_factory.mktemp("rpm"))
    (root / "opt").rmdir()
    (root / "opt").symlink_to("var/opt")
    (root / "usr/sbin/setfiles").write_text(SETFILES)
    (root / "usr/sbin/setfiles").chmod(0o755)
    done = bake(root, WISH)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def test_image_passes_every_rule_and_second_run_changes_nothing(baked: Path) -> None:
    assert verified(baked).returncode == 0, verified(baked).stdout
    again = bake(baked, WISH)
    assert "No changes" in again.stdout + again.stderr, again.stdout + again.stderr


def test_wanted_versions_are_installed_recorded_and_kept(baked: Path) -> None:
    assert inside(baked, "rpm", "-q", "kubelet") == "kubelet-1.36.2-1.el9.noarch\n"
    inside(baked, "dnf", "-q", "-y", "upgrade")
    assert inside(baked, "rpm", "-q", "kubelet") == "kubelet-1.36.2-1.el9.noarch\n"
    manifest = json.loads((baked / "etc/numaforge/image/manifest.json").read_text())
    assert manifest["packages"] == {
        "containerd": "2.2.9-1.el9",
        "kubelet": "1.36.2-1.el9",
        "lab-release": "9.4-1.el9",
    }
    assert manifest["held"] == ["containerd", "kubelet"]
    assert manifest["kubelet"]["source"] == "package kubelet 1.36.2-1.el9"


def test_other_version_replaces_a_held_package(baked: Path) -> None:
    other = bake(baked, {**WISH, "packages": {"kubelet": "1.36.3-*", "containerd": "*"}})
    assert other.returncode == 0, other.stdout + other.stderr
    assert inside(baked, "rpm", "-q", "kubelet") == "kubelet-1.36.3-1.el9.noarch\n"
    back = bake(baked, WISH)
    assert back.returncode == 0, back.stdout + back.stderr
    assert verified(baked).returncode == 0


def test_program_lives_in_usr_where_opt_links_to_var(baked: Path) -> None:
    assert (baked / HOME / "numaforge").is_file()
    assert str((baked / "var/opt/numaforge").readlink()) == f"/{HOME}"
    lines = (baked / "usr/lib/tmpfiles.d/numaforge-image.conf").read_text().splitlines()
    assert lines[1:] == [f"L+ /var/opt/numaforge - - - - /{HOME}"]


def test_files_get_selinux_types_of_the_image_policy(baked: Path) -> None:
    contexts = "/etc/selinux/targeted/contexts/files/file_contexts"
    labelled = (baked / "var/labelled").read_text().split()
    assert labelled == ["-m", "-F", contexts, f"/{HOME}", "/etc/numaforge", "/etc/systemd/system"]
    assert not (baked / ".autorelabel").exists()


def test_unheld_package_breaks_a_rule(baked: Path) -> None:
    inside(baked, "dnf", "-q", "-y", "versionlock", "delete", "kubelet")
    done = verified(baked)
    inside(baked, "dnf", "-q", "-y", "versionlock", "add", "kubelet")
    assert done.returncode == 1
    assert "kubelet is not held" in done.stdout


def test_package_missing_from_repositories_is_named(baked: Path) -> None:
    said = refused(baked, {**WISH, "packages": {"kubelet": "9.9.9-*"}})
    assert "kubelet-9.9.9-*" in said


def test_first_boot_relabels_where_setfiles_is_missing(tmp_path: Path) -> None:
    root = copy(tmp_path)
    done = bake(root, WISH)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (root / ".autorelabel").exists()
    assert (root / "opt/numaforge/numaforge").is_file()
    assert not (root / HOME).exists()
