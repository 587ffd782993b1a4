"""The templates of docs/examples/image as the builders' programs read them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from lab.roots import UnavailableError, build_tools
from tests.ssh.sandbox import cannot_run

pytestmark = pytest.mark.long
TOOLS = {
    "packer": "bookworm",
    "vagrant-libvirt": "bookworm",
    "mkosi": "trixie",
    "cloud-init": "trixie",
    "ansible-core": "trixie",
}
"""The programs, and the release of Debian that has them; no later one has packer or Vagrant."""
INSIDE = """
    mount --rbind /proc "$1/proc"
    mount -t tmpfs none "$1/mnt"
    cp -r "$2/." "$1/mnt"
    exec chroot "$1" sh -euc "cd /mnt; export HOME=/mnt TMPDIR=/mnt; $3"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the templates, with what a user has beside them."""
    copy = shutil.copytree(REPOSITORY / "docs/examples/image", tmp_path / "image")
    shutil.copy(REPOSITORY / "Vagrantfile", copy)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(copy / "key")], check=True)
    return copy


def run(tool: str, folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script where the program is, in the folder of the templates."""
    if reason := cannot_run():
        pytest.skip(reason)
    suite = TOOLS[tool]
    try:
        root = build_tools(suite, tuple(name for name, has in TOOLS.items() if has == suite))
    except UnavailableError as error:
        pytest.skip(str(error))
    command = ["unshare", "--mount", "sh", "-euc", INSIDE, "sh", str(root), str(folder), script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


PLAYBOOK = (
    "printf -- '- hosts: all\\n  roles: [numaforge]\\n' > play.yml; export ANSIBLE_ROLES_PATH=image-builder"
)
ACCEPTED = {
    "packer": "touch disk; packer validate -var image=disk -var key=key node.pkr.hcl",
    "vagrant-libvirt": "for each in libvirt virtualbox; do"
    " VAGRANT_DEFAULT_PROVIDER=$each vagrant validate --ignore-provider; done; vagrant validate",
    "mkosi": "cd mkosi; mkosi summary > said; cat said",
    "cloud-init": "cloud-init schema --config-file user-data.yaml",
    "ansible-core": f"{PLAYBOOK}; ansible-playbook --syntax-check -i localhost, play.yml",
}


@pytest.mark.parametrize("tool", ACCEPTED)
def test_builder_accepts_its_template(tool: str, folder: Path) -> None:
    done = run(tool, folder, ACCEPTED[tool])
    assert done.returncode == 0, done.stdout + done.stderr
    if tool == "vagrant-libvirt":
        assert "warning" not in done.stderr
    if tool == "mkosi":
        assert "Finalize Scripts: /mnt/mkosi/mkosi.finalize" in done.stdout


def test_invalid_number_of_machines_is_one_message(folder: Path) -> None:
    done = run("vagrant-libvirt", folder, "LAB_NODES=x vagrant validate")
    assert done.returncode != 0
    assert "LAB_NODES=x is no number of machines; write one from 1 to 9" in done.stderr
    assert "Vagrantfile:" not in done.stderr


MISTAKES = {
    "packer": ("node.pkr.hcl", "ssh_username", "ssh_usrname"),
    "vagrant-libvirt": ("Vagrantfile", "libvirt.cputopology", "libvirt.cputoplogy"),
    "mkosi": ("mkosi/mkosi.conf", "Format=disk", "Format=disc"),
    "cloud-init": ("user-data.yaml", "write_files:\n  -", "write_files:\n  - x: 1\n  -"),
    "ansible-core": ("image-builder/numaforge/tasks/main.yml", "delegate_to", "delegate_too"),
}


@pytest.mark.parametrize("tool", MISTAKES)
def test_builder_refuses_a_mistake_in_its_template(tool: str, folder: Path) -> None:
    name, right, wrong = MISTAKES[tool]
    text = (folder / name).read_text()
    assert right in text
    (folder / name).write_text(text.replace(right, wrong))
    assert run(tool, folder, ACCEPTED[tool]).returncode != 0
