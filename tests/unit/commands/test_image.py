"""`numaforge image cmdline`: the kernel parameters of an image, as its builder takes them."""

import json
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from numaforge import cli
from numaforge.commands.image import for_builder

PROFILE = """
name: own
extends: training
kernel: {cmdline: ["default_hugepagesz=1G", "iommu=pt"], rcu_nocbs: allocatable}
maintenance: {reboot: REBOOT}
"""
ACS = "pci=disable_acs_redir=0000:00:01.0;0000:00:02.0"


def image(folder: Path, reboot: str = "allowed", machines: str = "dgx-h100, epyc-gpu") -> str:
    (folder / "own.yaml").write_text(PROFILE.replace("REBOOT", reboot))
    file = folder / "image.yaml"
    file.write_text(f"{{boot: {{profile: own}}, profiles: [{folder}/own.yaml], machines: [{machines}]}}\n")
    return str(file)


@pytest.mark.parametrize(
    ("reboot", "how"),
    [
        ("allowed", "its first boot adds them, and reboots once"),
        ("never", "nothing adds them: maintenance.reboot is never"),
    ],
)
def test_parameters_of_one_kind_are_listed_apart_from_common_ones(tmp_path, capsys, reboot, how):
    assert cli.run(["image", "cmdline", image(tmp_path, reboot)]) == 0
    said = capsys.readouterr()
    assert said.out == "default_hugepagesz=1G iommu=pt\n"
    assert f"dgx-h100 alone needs rcu_nocbs=1-55,57-111,113-167,169-223: {how}" in " ".join(said.err.split())


def test_cmdline_json_matches_the_text(tmp_path, capsys):
    assert cli.run(["image", "cmdline", "-o", "json", image(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["shared"] == ["default_hugepagesz=1G", "iommu=pt"]
    own = {"only": ["rcu_nocbs=1-55,57-111,113-167,169-223"], "reboot": "allowed"}
    assert document["machines"]["dgx-h100"] == own


def test_cmdline_of_an_image_for_any_machine_is_refused(tmp_path, capsys):
    assert cli.run(["image", "cmdline", image(tmp_path, machines="")]) == 2
    assert "names no machine, or no profile" in capsys.readouterr().err


def test_each_image_builder_gets_its_own_format():
    words = ["iommu=pt", ACS]
    assert for_builder(words, "line") == " ".join(words)
    assert for_builder(words, "mkosi").splitlines()[1] == f"KernelCommandLine={' '.join(words)}"
    assert tomllib.loads(for_builder(words, "bootc")) == {"kargs": words}
    script = (
        f'GRUB_CMDLINE_LINUX_DEFAULT=quiet\n{for_builder(words, "grub")}\necho "$GRUB_CMDLINE_LINUX_DEFAULT"'
    )
    line = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert shlex.split(line) == ["quiet", *words]
    assert '"' in line
