"""mkosi's template, built by the mkosi of Debian 13; `numaforge verify --image` is its last step."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab import gobuild
from lab.image import mirror
from lab.paths import LAB, REPOSITORY
from lab.roots import UnavailableError, build_tools
from tests.fixtures import wheel
from tests.ssh.sandbox import cannot_run

pytestmark = pytest.mark.long
TEMPLATES = REPOSITORY / "docs/examples/image"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
TOOLS = (
    *("mkosi", "debian-archive-keyring", "python3-venv", "systemd-repart", "systemd-ukify"),
    *("systemd-boot-efi", "mtools", "dosfstools", "e2fsprogs", "cpio", "zstd", "kmod", "uidmap"),
)
SOURCES = """Types: deb
URIs: {mirror}
Suites: trixie
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
ENTER = """
    mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" none "$2/root"
    cd "$2/root"
    mount -t proc proc proc
    for each in dev sys; do mount --rbind "/$each" "$each"; done
    mount -t tmpfs none run
    mount --bind "$2/var" var/tmp
    for each in /etc/resolv.conf "$4"; do
        if [ -e "$each" ]; then mkdir -p ".${each%/*}"; touch ".$each"; mount --bind "$each" ".$each"; fi
    done
    mount --bind "$3" mnt
    mkdir .old
    pivot_root . .old
    umount -l .old
    shift 4
    cd /mnt
    exec env -i PATH=/usr/sbin:/usr/bin HOME=/root TERM=dumb "$@"
"""
"""mkosi makes namespaces of its own, which needs a root of its own, where a chroot is none."""


@pytest.fixture(scope="module")
def tools() -> Path:
    """The root of a Debian 13 that has mkosi."""
    if reason := cannot_run():
        pytest.skip(reason)
    try:
        return build_tools("trixie", TOOLS)
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template, with what a user has beside it: deploys, a kubelet with its unit, a wheel, a mirror."""
    folder = shutil.copytree(TEMPLATES / "mkosi", tmp_path_factory.mktemp("mkosi") / "project")
    shutil.copy(TEMPLATES / "image.yaml", folder)
    shutil.copy(REPOSITORY / "config.py", folder)
    shutil.copytree(REPOSITORY / "deploys", folder / "deploys")
    extra = folder / "mkosi.extra/usr"
    shutil.copytree(LAB / "rootfs/usr/lib/systemd", extra / "lib/systemd")
    (extra / "bin").mkdir()
    shutil.copy(gobuild.build(gobuild.KUBERNETES) / "kubelet", extra / "bin")
    wheel.build("wheel", REPOSITORY, folder)
    sources = folder / "mkosi.sandbox/etc/apt/sources.list.d/mkosi.sources"
    sources.parent.mkdir(parents=True)
    sources.write_text(SOURCES.format(mirror=(mirror() or ["http://deb.debian.org/debian"])[0]))
    return folder


def test_the_template_builds_a_disk_image_that_keeps_every_rule(
    tools: Path, project: Path, tmp_path: Path
) -> None:
    for name in ("upper", "work", "root", "var"):
        (tmp_path / name).mkdir()
    (built,) = project.glob("*.whl")
    settings = {"NUMAFORGE": f"./{built.name}"}
    settings |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    given = [word for name, value in settings.items() for word in ("--environment", f"{name}={value}")]
    inside = ["sh", "-euc", ENTER, "sh", str(tools), str(tmp_path), str(project), str(AUTHORITIES)]
    command = ["unshare", "--mount", "--pid", "--fork", *inside, "mkosi", *given, "build"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "rules kept, 0 broken" in done.stdout + done.stderr
    assert (project / "image.raw").stat().st_size
