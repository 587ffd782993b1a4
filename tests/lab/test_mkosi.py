"""mkosi's template, built by the mkosi of Debian 13: UEFI boots its disk image, and the node plans itself."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab import gobuild, requirements
from lab.image import mirror
from lab.node import ACCELERATOR, CPU
from lab.paths import LAB, REPOSITORY
from lab.requirements import command
from lab.roots import UnavailableError, build_tools
from tests.fixtures import wheel
from tests.ssh.sandbox import cannot_run

pytestmark = [pytest.mark.long, pytest.mark.vm]
WITHIN_S = 3600
TEMPLATES = REPOSITORY / "docs/examples/image"
FIRMWARE = "usr/share/OVMF"
TOOLS = (
    *("mkosi", "debian-archive-keyring", "python3-venv", "systemd-repart", "systemd-ukify"),
    *("systemd-boot-efi", "mtools", "dosfstools", "e2fsprogs", "cpio", "zstd", "kmod", "uidmap", "ovmf"),
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
    for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
        if [ -e "$file" ]; then cp --remove-destination "$file" ".$file"; fi
    done
    mount --bind "$3" mnt
    mkdir .old
    pivot_root . .old
    umount -l .old
    shift 3
    cd /mnt
    exec env -i PATH=/usr/sbin:/usr/bin HOME=/root TERM=dumb "$@"
"""
"""mkosi makes namespaces of its own, which needs a root of its own, where a chroot is none."""
ASKED = (
    "systemctl start numaforge-boot.service && cat /var/lib/numaforge/boot/record.json"
    " && /opt/numaforge/numaforge boot --dry && echo numaforge: as planned"
)
WORDS = (
    "console=ttyS0 systemd.default_device_timeout_sec=1800 systemd.default_timeout_start_sec=1800"
    " numaforge.profile=cpu-only systemd.run_success_action=poweroff systemd.run_failure_action=poweroff"
    f" systemd.run=\"/bin/sh -c '{{ {ASKED}; }} > /dev/console 2>&1'\""
)
"""What the firmware has the boot loader add to the image's own command line."""
ADDED_BY = ("io.systemd.boot.kernel-cmdline-extra", "io.systemd.stub.kernel-cmdline-extra")


@pytest.fixture(scope="module")
def tools() -> Path:
    """The root of a Debian 13 that has mkosi."""
    if reason := cannot_run():
        pytest.skip(reason)
    requirements.ensure()
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


@pytest.fixture(scope="module")
def disk(tools: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The disk image that mkosi builds of the template."""
    scratch = tmp_path_factory.mktemp("root")
    for name in ("upper", "work", "root", "var"):
        (scratch / name).mkdir()
    (built,) = project.glob("*.whl")
    settings = {"NUMAFORGE": f"./{built.name}"}
    settings |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    given = [word for name, value in settings.items() for word in ("--environment", f"{name}={value}")]
    inside = ["sh", "-euc", ENTER, "sh", str(tools), str(scratch), str(project)]
    command = ["unshare", "--mount", "--pid", "--fork", *inside, "mkosi", *given, "build"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "rules kept, 0 broken" in done.stdout + done.stderr
    return project / "image.raw"


def test_disk_image_boots_by_its_own_loader_and_plans_itself(disk: Path, tools: Path, tmp_path: Path) -> None:
    strings = []
    for name in ADDED_BY:
        (tmp_path / name).write_text(f"{name}={WORDS}")
        strings.append(f"path={tmp_path / name}")
    code, variables = (tools / FIRMWARE / f"OVMF_{name}_4M.fd" for name in ("CODE", "VARS"))
    arguments = [
        command("qemu-system-x86_64"),
        *("-machine", "q35", "-nodefaults", "-display", "none", "-no-reboot", "-nic", "none"),
        *("-accel", ACCELERATOR, "-cpu", CPU, "-smp", "4,sockets=2,cores=2,threads=1", "-m", "4G"),
        *("-object", "memory-backend-ram,id=m0,size=2G", "-numa", "node,nodeid=0,memdev=m0,cpus=0-1"),
        *("-object", "memory-backend-ram,id=m1,size=2G", "-numa", "node,nodeid=1,memdev=m1,cpus=2-3"),
        *("-drive", f"if=pflash,format=raw,readonly=on,file={code}"),
        *("-drive", f"if=pflash,format=raw,snapshot=on,file={variables}"),
        *(
            "-drive",
            f"if=virtio,format=raw,snapshot=on,file={disk}",
            "-serial",
            f"file:{tmp_path / 'console'}",
        ),
        *(word for string in strings for word in ("-smbios", f"type=11,{string}")),
    ]
    subprocess.run(arguments, stdin=subprocess.DEVNULL, timeout=WITHIN_S, check=True)
    console = (tmp_path / "console").read_text(errors="replace").replace("\r", "")
    assert "\nnumaforge: as planned" in console, console[-3000:]
    assert '"profile": "cpu-only"' in console
