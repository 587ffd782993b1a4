"""A run with nothing to change, over loopback SSH: `site.py` beside an Ansible playbook for the same files.

Both talk to the same sshd in a sandbox of tests/ssh, as root with a key. The playbook copies the files that
the plan lists, with mode and owner, with pipelining and a shared connection, gathering no facts; it neither
detects the machine nor reads a kernel setting back, which `site.py` does. Needs root; ansible-core is
installed into a temporary folder.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fixtures.machines import KUBEADM_CONFIG
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, cannot_run, free_port, pyinfra, running_sandbox
from tests.ssh.standin_systemd import standin_systemd

RUNS = 5
PROFILE = {
    "name": "bench",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 16}],
    "kubelet": {"cpu_manager_policy": "static"},
    "tuning": {"governor": "performance", "sysctls": {"vm.swappiness": "1"}, "numa_balancing": False},
}


def main() -> None:
    reason = cannot_run()
    if reason:
        sys.exit(f"no measurement: {reason}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = free_port()
        files = {
            **machine(),
            **standin_systemd(port),
            "/var/lib/kubelet/config.yaml": KUBEADM_CONFIG.replace("10248", str(port)),
            "/usr/lib/systemd/system/kubelet.service": (
                "[Service]\nExecStart=/usr/local/bin/kubelet --config=/var/lib/kubelet/config.yaml\n"
            ),
        }
        with running_sandbox(folder, files) as sandbox:
            measure(sandbox, folder)


def measure(sandbox: Sandbox, folder: Path) -> None:
    sandbox.run("mkdir -p /run/systemd/system; systemctl start kubelet.service; sleep 1")
    hosts = {"node": {**sandbox.data(), "numaforge_profile": PROFILE, "kubelet_stable_seconds": 1}}

    def site() -> str:
        run = pyinfra(folder, hosts, "-y", "deploys/site.py")
        assert run.returncode == 0, run.stdout
        return run.stdout

    site()
    output = site()
    assert "Success" not in output.split("Results:")[0], output
    count, playbook = write_playbook(sandbox, folder)
    play = ansible(sandbox, folder, playbook)
    assert "changed=0" in play(), "the playbook found something to change"

    ours, theirs = timed(site), timed(play)
    print(f"{count} files on one host over loopback SSH, nothing to change, median of {RUNS} runs:")
    print(
        f"  pyinfra -y deploys/site.py   {ours:6.2f} s   (detects, plans, checks files and kernel settings)"
    )
    print(f"  ansible-playbook             {theirs:6.2f} s   (files only, pipelining)")
    print(f"  ratio                        {theirs / ours:6.1f}")


def timed(action: Callable[[], str]) -> float:
    durations = []
    for _ in range(RUNS):
        start = time.perf_counter()
        action()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)


def write_playbook(sandbox: Sandbox, folder: Path) -> tuple[int, Path]:
    """Write a playbook that copies what the plan lists, as it is on the host now."""
    planned = json.loads(sandbox.path("/etc/numaforge/plan.json").read_text())["files"]
    tasks = [
        {
            "name": file["path"],
            "ansible.builtin.copy": {
                "dest": file["path"],
                "content": "{% raw %}" + sandbox.path(file["path"]).read_text() + "{% endraw %}",
                "mode": file["mode"],
                "owner": file["owner"],
                "group": file["group"],
            },
        }
        for file in planned
    ]
    playbook = folder / "playbook.json"  # JSON is YAML
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    return len(planned), playbook


def ansible(sandbox: Sandbox, folder: Path, playbook: Path) -> Callable[[], str]:
    """Install ansible-core beside the playbook, and return a function that plays it."""
    environment = folder / "ansible"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    subprocess.run(
        [str(environment / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "ansible-core"],
        check=True,
    )
    data = sandbox.data()
    inventory = folder / "hosts.ini"
    inventory.write_text(
        f"node ansible_host=127.0.0.1 ansible_port={sandbox.port} ansible_user=root "
        f"ansible_ssh_private_key_file={data['ssh_key']} ansible_python_interpreter=/usr/bin/python3\n"
    )
    variables = {
        **os.environ,
        "HOME": str(folder),
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_SSH_ARGS": f"-o UserKnownHostsFile={data['ssh_known_hosts_file']} -o ControlMaster=auto "
        f"-o ControlPersist=60s -o ControlPath={folder}/control-%C",
        "LC_ALL": "C.UTF-8",
    }

    def play() -> str:
        run = subprocess.run(
            [str(environment / "bin/ansible-playbook"), "-i", str(inventory), str(playbook)],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    return play


if __name__ == "__main__":
    main()
