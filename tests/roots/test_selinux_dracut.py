"""What an image's files are to Debian's SELinux policy and to its dracut, as their own programs have them."""

import os
import subprocess
from pathlib import Path

import pytest

from lab.roots import UnavailableError, build_tools
from numaforge.image.bake.program import HOME
from numaforge.lib import shell
from numaforge.roles.modules.files import MODPROBE_PATH
from tests.fixtures.tables import cases
from tests.ssh.sandbox import cannot_run

TOOLS = ("dracut-core", "kmod", "policycoreutils", "selinux-policy-default", "selinux-utils")
TYPES = {
    f"{HOME}/numaforge": "usr_t",
    f"{HOME}/boot": "usr_t",
    f"{HOME}/lib/numaforge/cli.py": "lib_t",
    "/etc/numaforge/boot.yaml": "etc_t",
    "/etc/systemd/system/numaforge-boot.service": "systemd_unit_t",
    "/etc/systemd/system/kubelet.service.d/05-numaforge-boot.conf": "kubernetes_unit_t",
}
OPTIONS = "options ib_core netns_mode=1\n"
DRACUT = f"""
mkdir -p {Path(MODPROBE_PATH).parent} /lib/modules/6.12.0
printf '{OPTIONS}' > {MODPROBE_PATH}
: > /lib/modules/6.12.0/modules.builtin; : > /lib/modules/6.12.0/modules.order; depmod 6.12.0
dracut --force --hostonly --kver 6.12.0 --modules 'base kernel-modules' /tmp/initrd
lsinitrd /tmp/initrd -f {MODPROBE_PATH} > /tmp/options
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a root with the programs."""
    if reason := cannot_run():
        pytest.skip(reason)
    try:
        kept = build_tools("trixie", TOOLS)
    except UnavailableError as error:
        pytest.skip(str(error))
    root = tmp_path_factory.mktemp("selinux") / "root"
    subprocess.run(["cp", "-a", str(kept), str(root)], check=True)
    return root


def run_in(root: Path, command: str, start: str = 'exec "$@"') -> str:
    """Run a command in the root, and return what it printed."""
    enter = ("sh", "-c", shell.library("run/hosts/enter_root"), "sh", str(root), f"set -e; {command}")
    words = ("unshare", "--mount", "sh", "-euc", start, str(root), *enter)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_image_files_get_the_selinux_types_of_a_real_policy(root: Path) -> None:
    for path in TYPES:
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (root / "etc/selinux/config").write_text("SELINUX=enforcing\nSELINUXTYPE=default\n")
    run_in(
        root,
        shell.library("image/bake/image")
        + shell.call("label", [HOME, "/etc/numaforge", "/etc/systemd/system"]),
    )
    contexts = {path: os.getxattr(root / path.lstrip("/"), "security.selinux").decode() for path in TYPES}
    assert {path: context.split(":")[2] for path, context in contexts.items()} == TYPES
    assert not (root / ".autorelabel").exists()


@cases(
    "start, taken",
    {
        "on a mounted root": ('mount --bind "$0" "$0"; exec "$@"', True),
        "not where dracut finds no mounts": ('exec "$@"', False),
    },
)
def test_dracut_includes_module_options_in_the_initramfs(root: Path, start: str, taken: bool) -> None:
    said = run_in(root, DRACUT, start)
    assert (root / "tmp/options").read_text().strip() == (OPTIONS.strip() if taken else "")
    assert ("Turning off host-only mode" in said) != taken
