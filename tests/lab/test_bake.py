"""`deploys/bake.py` on copies of the releases' roots, by @chroot: what is made, and what is left alone."""

import json
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from lab.roots import RELEASES, UnavailableError, build
from numaforge.lib import shell
from numaforge.lib.file_content import WRITTEN_BELOW
from tests.lab.bakes import PROGRAMS, START, bake, refusal, refused

KUBELET = """[Unit]
Description=a kubelet
[Service]
ExecStart=/opt/bin/kubelet --config=/k
[Install]
WantedBy=multi-user.target
"""
PROGRAM = "#!/bin/sh\necho Kubernetes v1.36.3\n"
WISH: dict[str, object] = {
    "boot": {"profile": "training"},
    "machines": ["dgx-h100", "epyc-nps4"],
    "enable": ["containerd.service", "kubelet.service"],
    "sysprep": True,
}
OUTSIDE = Path("/srv/numaforge-outside")
"""Where absolute links of the roots lead: nothing of that name may come to be on the machine that bakes."""
REPLACED = "opt/numaforge"
LINKS = {
    REPLACED: f"{OUTSIDE}/program",
    "etc/systemd/system/kubelet.service.d": f"{OUTSIDE}/drop-ins",
    "etc/numaforge": f"{OUTSIDE}/etc",
    "etc/resolv.conf": f"{OUTSIDE}/resolv.conf",
}
SYSCTLS = (
    "vm/nr_hugepages",
    "vm/overcommit_memory",
    "kernel/panic",
    "net/ipv4/ip_forward",
    "vm/compaction_proactiveness",
)
NEEDED = "etc/numaforge/image/cmdline"
UPDATE_GRUB = "usr/sbin/update-grub"
MOUNTED = f'for each in proc sys; do mount --rbind "/$each" "$0/$each"; done; {START}'
EARLY = ("trixie",)
LATE = ("bookworm", "noble", "resolute")
TOO_OLD = "jammy"


@dataclass(frozen=True)
class Baked:
    """A root that was baked twice; `before` and `after` are of the machine that bakes.

    `third` is a try to enable a unit that there is not, which shows only when all the rest is made.
    """

    root: Path
    first: subprocess.CompletedProcess[str]
    second: subprocess.CompletedProcess[str]
    third: subprocess.CompletedProcess[str]
    before: Mapping[str, str]
    after: Mapping[str, str]


def root_of(suite: str, folder: Path) -> Path:
    """Return a copy of a release's root, with the unit of a kubelet."""
    try:
        kept = build(suite)
    except UnavailableError as error:
        pytest.skip(str(error))
    root = folder / suite
    subprocess.run(["cp", "-a", str(kept), str(root)], check=True)
    (root / "etc/systemd/system/kubelet.service").write_text(KUBELET)
    (root / "opt/bin").mkdir()
    (root / "opt/bin/kubelet").write_text(PROGRAM)
    (root / "opt/bin/kubelet").chmod(0o755)
    shutil.rmtree(root / "dev")  # as builders that mount none leave it
    (root / "dev").mkdir()
    return root


def of_the_builder() -> dict[str, str]:
    """Return what the machine that bakes has set, and what it has mounted."""
    values = {name: Path("/proc/sys", name).read_text() for name in SYSCTLS}
    return {
        **values,
        "hostname": Path("/etc/hostname").read_text(),
        "resolv.conf": Path("/etc/resolv.conf").read_text(),
    }


@pytest.fixture(scope="module", autouse=True)
def _needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root enters a root file system")


@pytest.fixture(
    scope="module", params=[*EARLY, *(pytest.param(suite, marks=pytest.mark.long) for suite in LATE)]
)
def baked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Baked]:
    """A root with links that lead out, while the builder's /proc and /sys are mounted in it."""
    root = root_of(request.param, tmp_path_factory.mktemp("bake"))
    for name, target in LINKS.items():
        link = root / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        (root / target.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        if name != "etc/resolv.conf":
            (root / target.lstrip("/")).mkdir()
    (root / "etc/machine-id").chmod(0o644)
    (root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    (root / "tmp/builder").write_text("left\n")
    before = of_the_builder()
    wishes = (WISH, WISH, {**WISH, "enable": ["crio.service", "kubelet.service"]})
    yield Baked(root, *(bake(root, wish, MOUNTED) for wish in wishes), before, of_the_builder())
    shutil.rmtree(root)


def test_a_root_is_baked(baked):
    assert baked.first.returncode == 0, baked.first.stdout + baked.first.stderr


def test_second_run_changes_nothing(baked):
    assert baked.second.returncode == 0, baked.second.stdout + baked.second.stderr
    assert "No changes" in baked.second.stdout + baked.second.stderr


def test_missing_unit_is_named(baked):
    assert "the image has no crio.service" in refusal(baked.third)


def test_every_rule_of_an_image_is_kept(baked):
    command = [PROGRAMS / "numaforge", "verify", "--image", str(baked.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_builder_identities_are_removed(baked):
    assert not [*(baked.root / "etc/ssh").glob("ssh_host_*")]
    assert (baked.root / "etc/machine-id").read_text() == ""
    assert not (baked.root / "tmp/builder").exists()
    assert "/etc/machine-id is emptied" in baked.first.stdout + baked.first.stderr


def test_root_keeps_no_device_or_proc_entry_and_python_is_compiled(baked):
    assert not [*(baked.root / "dev").iterdir()]
    assert not [*(baked.root / "proc").iterdir()]
    (compiled,) = (baked.root / "opt/numaforge/lib/numaforge/__pycache__").glob("cli.*.pyc")
    assert compiled.stat().st_size


def test_links_out_of_the_root_resolve_inside_the_root(baked):
    inside = baked.root / str(OUTSIDE).lstrip("/")
    assert (inside / "drop-ins/05-numaforge-boot.conf").is_file()
    assert (inside / "etc/boot.yaml").is_file()
    assert all((baked.root / name).is_symlink() for name in LINKS if name != REPLACED)


def test_link_at_the_program_path_is_replaced(baked):
    assert not (baked.root / REPLACED).is_symlink()
    assert (baked.root / REPLACED / "numaforge").is_file()
    assert not [*(baked.root / LINKS[REPLACED].lstrip("/")).iterdir()]


def test_nothing_is_written_outside_the_root(baked):
    assert not OUTSIDE.exists()
    assert baked.after == baked.before


def test_manifest_names_every_package_and_the_kubelet(baked):
    manifest = json.loads((baked.root / str(OUTSIDE).lstrip("/") / "etc/image/manifest.json").read_text())
    names = subprocess.run(
        ["chroot", baked.root, "dpkg-query", "-W", "-f", "${Package}\n"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {*manifest["packages"]} == {*names.stdout.split()}
    assert manifest["kubelet"] == {
        "version": "1.36.3",
        "source": "no package",
        "file": {"/opt/bin/kubelet": sha256(PROGRAM.encode()).hexdigest()},
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root that no test may change, except where it takes that back."""
    return root_of(EARLY[0], tmp_path_factory.mktemp("plain"))


def test_root_with_kubelet_keys_is_refused_as_a_node(plain):
    keys = plain / "var/lib/kubelet/pki"
    keys.mkdir(parents=True)
    try:
        assert "a kubelet has joined a cluster: this is a node, not an image" in refused(plain, WISH)
    finally:
        keys.rmdir()
    assert not (plain / "opt/numaforge").exists()


IN_A_NAMESPACE = "test -c /dev/null -a -c /dev/urandom -a -d /dev/shm -a -e /proc/self/exe"
SYSCTL = "/proc/sys/vm/swappiness"
ENTERED = {
    "has devices and processes": ((), IN_A_NAMESPACE, 0),
    "sets nothing of this kernel": ((), f"cat {SYSCTL} > /tmp/was && cat /tmp/was > {SYSCTL}", 2),
    "ends as its command does": ((), "exit 7", 7),
    "has /dev/null where no namespace is allowed": (
        ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"),
        "test -c /dev/null -a ! -e /proc/self && exit 7",
        7,
    ),
    "loses the file in the place of /dev/null, too": (
        ("setpriv", "--bounding-set=-sys_admin,-mknod", "--inh-caps=-sys_admin,-mknod"),
        "echo > /dev/null; test -f /dev/null",
        0,
    ),
}


@pytest.mark.parametrize(("limits", "command", "status"), ENTERED.values(), ids=ENTERED)
def test_command_in_a_root_without_devices_returns_its_status(plain, limits, command, status):
    enter = shell.library("run/hosts/enter_root")
    done = subprocess.run(
        [*limits, "sh", "-c", enter, "sh", str(plain), command], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert not [*(plain / "dev").iterdir(), *(plain / "proc").iterdir()]


def test_regular_file_at_dev_null_is_reported(plain):
    null = plain / "dev/null"
    null.touch()
    command = [PROGRAMS / "numaforge", "verify", "--image", str(plain)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    null.unlink()
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert re.search("nothing is left of what made the image: (/[^ ]+, )*/dev/null", said), said
    assert "numaforge runs in the image, and is compiled: " in said


MOUNTS = {
    "a writable root": ("LABEL=root / ext4 defaults 0 1\nLABEL=usr /usr erofs ro 0 0\n", ""),
    "a root that stays read-only": (
        "LABEL=root / ext4 ro 0 1\n",
        "/etc/numaforge is on /, which /etc/fstab mounts read-only",
    ),
    "a writable /etc and /var over it": (
        "LABEL=root / ext4 ro 0 1\noverlay /etc overlay defaults\nLABEL=var /var ext4 rw,nodev 0 1\n",
        "",
    ),
    "one folder": (
        "# none\n\nLABEL=units /etc/systemd/system squashfs ro 0 0\n",
        "/etc/systemd/system is on /etc/systemd/system, which /etc/fstab mounts read-only",
    ),
}


@pytest.mark.parametrize(("fstab", "why"), MOUNTS.values(), ids=MOUNTS)
def test_unwritable_folders_are_reported_with_their_mount(plain, fstab, why):
    (plain / "etc/fstab").write_text(fstab)
    script = shell.assignments({"WRITTEN_BELOW": " ".join(WRITTEN_BELOW)})
    script += shell.library("image/bake/hygiene") + shell.call("tell_unwritable")
    done = subprocess.run(["chroot", plain, "sh", "-c", script], capture_output=True, text=True, check=True)
    (plain / "etc/fstab").unlink()
    assert done.stderr == ""
    assert "".join(done.stdout.splitlines()[:1]) == why


ACS = "pci=disable_acs_redir=0000:00:01.0;0000:00:02.0"
NEEDS = f"# who\ndgx allowed iommu=pt\nspark never {ACS}\n"
NOTHING_TO_CHANGE = (
    "dgx needs iommu=pt, which no boot loader of this root gives the kernel, and the first boot finds none "
    "that it could change"
)
NO_REBOOT = (
    f"spark needs {ACS}, which no boot loader of this root gives the kernel, and its profile lets no reboot "
    "add it (maintenance.reboot)"
)
GIVES = f"quiet iommu=pt {ACS}"
LINES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "a direct boot": ({}, (NOTHING_TO_CHANGE, NO_REBOOT)),
    "the builder, by the image's own word": ({NEEDED: f"given - iommu=pt\ngiven - {ACS}\n{NEEDS}"}, ()),
    "a GRUB that the first boot changes": (
        {UPDATE_GRUB: "the root's", "etc/default/grub.d/a.cfg": "GRUB_CMDLINE_LINUX='quiet'\n"},
        (NO_REBOOT,),
    ),
    "GRUB's settings": (
        {"etc/default/grub.d/a.cfg": f'GRUB_CMDLINE_LINUX_DEFAULT="$G iommu=pt pci=\\"{ACS[4:]}\\""\n'},
        (),
    ),
    "GRUB's menu": ({"boot/grub2/grub.cfg": f"\tlinux\t/vmlinuz {GIVES}\n"}, ()),
    "an entry of systemd-boot or BLS": ({"efi/loader/entries/a.conf": f"title a\noptions {GIVES}\n"}, ()),
    "the line of kernel-install": ({"etc/kernel/cmdline": GIVES}, ()),
    "bootc": ({"usr/lib/bootc/kargs.d/1.toml": f'kargs = ["iommu=pt", "{ACS}"]\n'}, ()),
    "a unified kernel image": ({"boot/EFI/Linux/a.efi": GIVES}, ()),
}


def unified(line: str) -> bytes:
    """Return a file in PE's format with two sections, the second one .cmdline."""
    sections = [(b".text", b"code"), (b".cmdline", line.encode())]
    place, headers = 512, b""
    for name, content in sections:
        headers += struct.pack("<8sIIII16x", name, len(content), 0x1000, 512, place)
        place += 512
    start = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64) + b"PE\0\0"
    coff = struct.pack("<HH12xHH", 0x8664, len(sections), 8, 0) + b"\0" * 8
    return (start + coff + headers).ljust(512, b"\0") + b"".join(
        text.ljust(512, b"\0") for _, text in sections
    )


@pytest.mark.parametrize(("files", "sentences"), LINES.values(), ids=LINES)
def test_kernel_parameters_are_checked_against_the_boot_loader(plain, files, sentences):
    update_grub, kept = plain / "usr/sbin/update-grub", plain / "usr/sbin/update-grub.kept"
    made = []
    if UPDATE_GRUB not in files:
        update_grub.rename(kept)
    for name, text in {NEEDED: NEEDS, **files}.items():
        path = plain / name
        if name != UPDATE_GRUB:
            made.append(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(unified(text) if name.endswith(".efi") else text.encode())
    script = shell.library("roles/kernel_cmdline/look", "image/bake/hygiene") + shell.call("tell_cmdline")
    done = subprocess.run(["chroot", plain, "sh", "-c", script], capture_output=True, text=True, check=True)
    for path in made:
        path.unlink()
    if kept.exists():
        kept.rename(update_grub)
    assert (done.stderr, tuple(done.stdout.splitlines())) == ("", sentences)


@pytest.mark.long
def test_bake_reports_parameters_that_the_image_cannot_boot_with(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text(
        "{extends: training, name: own, kernel: {cmdline: [iommu=pt]}, maintenance: {reboot: allowed}}\n"
    )
    wish = {**WISH, "boot": {"profile": "own"}, "profiles": [str(own)], "enable": ["kubelet.service"]}
    root = root_of(EARLY[0], tmp_path)
    (root / UPDATE_GRUB).unlink()
    done = bake(root, wish)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note: dgx-h100 needs iommu=pt, which no boot loader" in done.stdout + done.stderr


def test_root_with_a_read_only_folder_for_planned_files_is_refused(plain):
    unit = plain / "etc/systemd/system/etc-sysctl.d.mount"
    unit.write_text("[Mount]\nWhat=none\nWhere=/etc/sysctl.d\nType=tmpfs\nOptions=ro, nodev\n")
    said = refused(plain, WISH)
    unit.unlink()
    assert f"/etc/sysctl.d is on /etc/sysctl.d, which /{unit.relative_to(plain)} mounts read-only" in said
    assert not (plain / "opt/numaforge").exists()


DOUBTS = {
    "no database": ("var/lib/dpkg/status", "it has neither dpkg's database nor RPM's"),
    "no apt": ("usr/bin/apt-get", "it has packages of apt, and no apt-get"),
}


@pytest.mark.parametrize(("gone", "why"), DOUBTS.values(), ids=DOUBTS)
def test_root_with_unmanageable_packages_is_refused(plain, gone, why):
    aside = (plain / gone).rename(plain / "aside")
    try:
        assert f"the packages of the image cannot be managed: {why}" in refused(plain, WISH)
    finally:
        aside.rename(plain / gone)
    assert not (plain / "opt/numaforge").exists()


@pytest.mark.long
def test_version_missing_from_apt_is_reported(plain):
    said = refused(plain, {**WISH, "packages": {"containerd": "0.1.2-3"}})
    assert "Version '0.1.2-3' for 'containerd' was not found" in said
    assert not (plain / "usr/sbin/policy-rc.d").exists()
    assert not (plain / "opt/numaforge").exists()


def test_profile_that_an_image_machine_cannot_meet_is_refused_at_bake_time(plain):
    own = plain.parent / "greedy.yaml"
    own.write_text("{extends: training, name: greedy, memory: {system_reserved: 9000Gi}}\n")
    wish = {**WISH, "boot": {"profile": "greedy"}, "profiles": [str(own)]}
    assert "the profile greedy cannot be planned for dgx-h100" in refused(plain, wish)
    assert "nowhere.json" in refused(plain, {**WISH, "machines": ["nowhere.json"]})
    assert not (plain / "opt/numaforge").exists()


@pytest.mark.long
def test_too_old_python_is_reported_with_a_remedy(tmp_path):
    assert TOO_OLD in RELEASES
    said = refused(root_of(TOO_OLD, tmp_path), WISH)
    assert "the image has 3.10, and numaforge needs 3.11" in said
    assert "on Ubuntu 22.04 python3.11" in said
