"""The wheel on an empty machine: the lab's node provisioned and verified from what `init` writes."""

import json
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.paths import REPOSITORY
from tests.fixtures import wheel
from tests.lab.rollouts import policy

SLOW_MACHINE = "\nkubelet_start_seconds = 300\n"
"""An emulated node is slow; everything else stays as `init` writes it."""


def admin_of(lab: Lab, folders: pytest.TempPathFactory, home: Path) -> wheel.Admin:
    """Return an admin with the wheel, the lab's ssh_config and its kubeconfig, who has nothing else."""
    programs = lab.control_plane.kubectl().parent
    admin = wheel.admin(wheel.installed(folders), home, (lab.state / "ssh_config").read_text(), programs)
    (admin.home / ".kube").mkdir()
    (admin.home / ".kube/config").symlink_to(lab.kubeconfig)
    return admin


@pytest.mark.long
def test_readme_commands_provision_a_node(lab, joined, tmp_path_factory, tmp_path):
    """As printed, but for the hosts' names, and a profile for a machine without GPU drivers."""
    admin = admin_of(lab, tmp_path_factory, tmp_path / "home")
    texts = [
        command.replace("--host gpu-02 ", "").replace("gpu-01", joined.name).replace("training", "cpu-only")
        for command in wheel.commands(REPOSITORY / "README.md")
    ]
    begin = next(number for number, text in enumerate(texts) if text.startswith("numaforge init "))
    admin.succeed(texts[begin], tmp_path)
    fleet = tmp_path / "fleet"
    data = fleet / "group_data/all.py"
    data.write_text(data.read_text() + SLOW_MACHINE)
    for text in texts[begin + 1 :]:
        admin.succeed(text, fleet)
    assert policy(joined) == "static"


@pytest.mark.long
def test_folder_written_by_init_provisions_rolls_out_and_verifies(lab, joined, tmp_path_factory, tmp_path):
    admin = admin_of(lab, tmp_path_factory, tmp_path / "home")
    admin.succeed(f"numaforge init fleet --host {joined.name} --profile cpu-only", tmp_path)
    fleet = tmp_path / "fleet"
    data = fleet / "group_data/all.py"
    data.write_text(data.read_text() + SLOW_MACHINE)

    said = {command: admin.succeed(command, fleet) for command in wheel.commands(fleet / "README.md")}
    assert (
        "done: the node is as planned"
        in said[f"pyinfra -y --limit {joined.name} inventory.py deploys/site.py"]
    )
    assert policy(joined) == "static"

    profile = fleet / "profiles/nodes.yaml"
    profile.write_text(profile.read_text() + "\nkubelet:\n  cpu_manager_policy: none\n")
    assert "1 of 1" in admin.succeed("numaforge rollout plan inventory.py", fleet)
    admin.succeed("numaforge rollout run inventory.py --max-unavailable 10%", fleet)
    assert policy(joined) == "none"
    verified = admin.succeed("numaforge verify -o json --kubeconfig ~/.kube/config inventory.py", fleet)
    running = [test for test in json.loads(verified)["tests"] if "test_running_kubelet" in test["name"]]
    assert {test["outcome"] for test in running} == {"passed"}
