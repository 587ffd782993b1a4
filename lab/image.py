"""The node's disk: Debian with GRUB and sshd, containerd and a kubelet laid out as kubeadm leaves them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from lab import cache, gobuild, mbr, oci
from lab.errors import LabError
from lab.paths import LAB, REPOSITORY
from lab.requirements import command

SUITE = "bookworm"
PACKAGES = (
    # boot and log in
    "linux-image-amd64",
    "initramfs-tools",
    "grub2-common",
    "grub-pc-bin",
    "systemd-sysv",
    "dbus",
    "udev",
    "openssh-server",
    "sudo",
    "python3",
    # run containers
    "runc",
    "containernetworking-plugins",
    "iptables",
    "busybox-static",
    # look around, as administrators do
    "ca-certificates",
    "curl",
    "ethtool",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "irqbalance",
    "kmod",
    "less",
    "numactl",
    "pciutils",
    "procps",
    "rdma-core",
    # measure; Debian's kernel lacks what rtla reads
    "perftest",
    "rt-tests",
    "stress-ng",
    "sysbench",
)

UNUSED_DOCUMENTS = (
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
)
UNUSED_FILES = (
    *UNUSED_DOCUMENTS,
    *(
        f"/lib/modules/*/kernel/{folder}/*"
        for folder in (
            "drivers/gpu",
            "drivers/iio",
            "drivers/isdn",
            "drivers/media",
            "drivers/net/wireless",
            "drivers/staging",
            "drivers/usb",
            "sound",
        )
    ),
)

INITRAMFS_MODULES = "virtio_pci\nvirtio_blk\next4\n"

DISK_BYTES = 6 << 30

NODE_PROGRAMS = {
    "usr/bin/kubeadm": (gobuild.KUBERNETES, "kubeadm"),
    "usr/bin/kubelet": (gobuild.KUBERNETES, "kubelet"),
    "usr/local/bin/containerd": (gobuild.CONTAINERD, "containerd"),
    "usr/local/bin/containerd-shim-runc-v2": (gobuild.CONTAINERD, "containerd-shim-runc-v2"),
    "usr/local/bin/ctr": (gobuild.CONTAINERD, "ctr"),
    "usr/lib/lab/deviceplugin": (gobuild.DEVICE_PLUGIN, "deviceplugin"),
    "usr/lib/lab/k8s-rdma-shared-dp": (gobuild.RDMA_PLUGIN, "k8s-rdma-shared-dp"),
}

IMAGES = {
    "lab.example/pause:1": ["sleep", "infinity"],
    "lab.example/busybox:1": ["sh"],
}


_BAKE = (
    *(str(Path(sys.executable).parent / "pyinfra"), "-y", "@chroot/{root}", "deploys/bake.py"),
    *("--data", "numaforge_image=lab/baked/image.yaml"),
)
"""What makes of a root file system one whose nodes plan themselves, as an image builder calls it."""
_OF_A_CLOUD = (str(LAB / "cloud-root.sh"), "{root}", *_BAKE)
"""The same for nodes that cloud-init sets up and `kubeadm join` makes nodes of a cluster."""


@dataclass(frozen=True)
class Image:
    """The files that QEMU boots."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "root.img"


def mirror() -> list[str]:
    """Return the Debian mirror that packages come from, where one is named; else mmdebstrap chooses."""
    chosen = os.environ.get("NUMAFORGE_DEBIAN_MIRROR")
    return [chosen] if chosen else []


def bootstrap_command() -> list[str]:
    """Return how mmdebstrap is called: what it mounts as root ends with it, also where it is killed."""
    alone = [command("unshare"), "--mount"] if os.geteuid() == 0 else []
    return [*alone, command("mmdebstrap")]


def build_base(*more: str) -> Path:
    """Return the folder with `root.tar`: Debian's files, with `more` packages; needs no binaries of ours."""
    packages = (*PACKAGES, *more)
    recipe = [SUITE, *packages, *UNUSED_FILES, INITRAMFS_MODULES]
    return cache.obtain("debian", cache.digest(recipe), lambda making: _bootstrap(making, packages))


def build(*, baked: bool = False, cloud: bool = False) -> Image:
    """Return the image, made from Debian's files, our binaries and the files below `lab/rootfs`.

    One that is `baked` has numaforge itself, and its nodes plan themselves. With `cloud` it has cloud-init,
    too, and has not joined a cluster.
    """
    base = build_base(*(("cloud-init",) if cloud else ()))
    programs = {
        target: gobuild.build(component) / name for target, (component, name) in NODE_PROGRAMS.items()
    }
    recipe = [
        base.name,
        str(DISK_BYTES),
        *(f"{target} {path.parent.name}" for target, path in programs.items()),
        *cache.tree_parts(LAB / "rootfs"),
        *((LAB / name).read_bytes() for name in ("image-assemble.sh", "mbr.py", "oci.py")),
        repr(IMAGES),
    ]
    if not (baked or cloud):
        folder = cache.obtain("image", cache.digest(recipe), lambda making: _assemble(making, base, programs))
        return Image(folder)
    hook = _OF_A_CLOUD if cloud else _BAKE
    recipe += [*cache.tree_parts(LAB / "baked"), _own_digest()]
    recipe += [Path(hook[0]).read_text()] if cloud else []
    key = cache.digest(recipe)
    return Image(cache.obtain("baked", key, lambda making: _assemble(making, base, programs, hook)))


def _own_digest() -> str:
    from numaforge.image.bake.program import digest

    return digest("3.11", platform.machine())  # of Debian 12


def _bootstrap(folder: Path, packages: tuple[str, ...]) -> None:
    _run(
        *bootstrap_command(),
        "--quiet",
        "--variant=minbase",
        f"--include={','.join(packages)}",
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in UNUSED_FILES),
        '--essential-hook=mkdir -p "$1/etc/initramfs-tools/conf.d"',
        '--essential-hook=printf "MODULES=list\\nCOMPRESS=gzip\\n" >"$1/etc/initramfs-tools/conf.d/lab"',
        f'--essential-hook=printf "{INITRAMFS_MODULES.encode("unicode_escape").decode()}"'
        ' >"$1/etc/initramfs-tools/modules"',
        SUITE,
        str(folder / "root.tar"),
        *mirror(),
    )


def _assemble(folder: Path, base: Path, programs: dict[str, Path], hook: tuple[str, ...] = ()) -> None:
    """Lay the parts over Debian's files and make the disk, as root or as root of a user namespace."""
    overlay = folder / "overlay.tar"
    images = folder / "images.tar"
    oci.write(images, _member(base / "root.tar", "./bin/busybox", "./usr/bin/busybox"), IMAGES)
    with tarfile.open(overlay, "w") as tar:
        tar.add(LAB / "rootfs", arcname=".", filter=_owned_by_root)
        tar.add(images, arcname="usr/lib/lab/images.tar", filter=_owned_by_root)
        for target, path in programs.items():
            tar.add(path, arcname=target, filter=_owned_by_root)
    become_root = [] if os.geteuid() == 0 else [command("mmdebstrap"), "--unshare-helper"]
    _run(
        *become_root,
        "sh",
        str(LAB / "image-assemble.sh"),
        str(base / "root.tar"),
        str(overlay),
        str(folder),
        str(DISK_BYTES),
        str(mbr.PARTITION_AT_BYTE),
        *hook,
    )
    boot_code, core_image = folder / "boot.img", folder / "core.img"
    mbr.write(folder / "root.img", boot_code.read_bytes(), core_image.read_bytes())
    for used in (overlay, images, boot_code, core_image):
        used.unlink()


def _member(archive: Path, *names: str) -> bytes:
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name in names and (content := tar.extractfile(member)) is not None:
                return content.read()
    raise LabError(f"none of {', '.join(names)} is there", where=str(archive))


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    if entry.isdir():
        entry.mode = 0o755
    return entry


def _run(*arguments: str) -> None:
    environment = os.environ | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    done = subprocess.run(
        arguments,
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        output = (done.stdout + done.stderr)[-4000:]
        raise LabError(f"{Path(arguments[0]).name} ended with {done.returncode}:\n{output}")
