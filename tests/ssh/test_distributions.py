"""k3s and RKE2 in their own layout: their unit, their folder of drop-ins, their program's version.

The layout is theirs; the kubelet and systemd are stand-ins, as k3s itself cannot be built here.
"""

from pathlib import Path

import pytest

from numaforge.lib.kubelet_paths import DROP_IN_DIR
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, pyinfra
from tests.ssh.site_runs import PROFILE, data, plain
from tests.ssh.standin_systemd import standin_systemd

WISH = {**PROFILE, "kubelet": {"cpu_manager_policy": "static"}}
LAYOUTS = {
    "k3s": (
        "k3s-agent.service",
        "/etc/systemd/system",
        "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
        {"/usr/local/bin/k3s": '#!/bin/sh\necho "k3s version v1.36.5+k3s1 (3dd98cc5)"\n'},
    ),
    "RKE2": (
        "rke2-agent.service",
        "/usr/local/lib/systemd/system",
        "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d",
        {},
    ),
}
_MAIN = (
    '        [ ! -e "/run/active/$unit" ] || read -r main < "/run/active/$unit" || main=0\n        group_of'
)


def node_of(name: str, start_sandbox: StartSandbox, port: int) -> Sandbox:
    """Start a node of a distribution, whose kubelet runs with the distribution's defaults."""
    unit, units, folder, programs = LAYOUTS[name]
    asked = f'        [ "$unit" != {unit} ] || read -r main < /run/kubelet.pid\n        group_of'
    stand_ins = {
        path: text.replace(_MAIN, _MAIN.replace("        group_of", asked))
        .replace("kubelet.service", unit)
        .replace(DROP_IN_DIR, folder)
        for path, text in standin_systemd(port).items()
    }
    defaults = f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nhealthzPort: {port}\n"
    files = {f"{units}/{unit}": "[Service]\n", f"{folder}/00-defaults.conf": defaults}
    node = start_sandbox({**machine(), **stand_ins, **programs, **files})
    node.run("chmod 755 /usr/local/bin/k3s; mkdir -p /run/systemd/system /run/cgroups")
    node.run(f"echo 0::/system.slice/{unit} > /run/cgroups/{unit}; systemctl start {unit}")
    node.run(
        f"until [ -e /var/lib/kubelet/cpu_manager_state ] && curl -fs 127.0.0.1:{port}; do sleep 0.05; done"
    )
    return node


def site(folder: Path, node: Sandbox, *options: str) -> tuple[int, str]:
    run = pyinfra(folder, {"gpu-01": data(node, WISH)}, *options, "deploys/site.py")
    return run.returncode, plain(run.stdout)


@pytest.mark.parametrize("name", LAYOUTS)
def test_its_kubelet_gets_a_drop_in_and_its_unit_restarts(
    start_sandbox: StartSandbox, port: int, tmp_path: Path, name: str
) -> None:
    unit, _, folder, _ = LAYOUTS[name]
    node = node_of(name, start_sandbox, port)
    code, said = site(tmp_path, node, "-y")
    assert code == 0, said
    drop_in = node.path(f"{folder}/90-numaforge.conf").read_text()
    assert "cpuManagerPolicy: static" in drop_in
    assert '"policyName": "static"' in node.path("/var/lib/kubelet/cpu_manager_state").read_text()
    log = node.path("/run/systemctl.log").read_text()
    assert f"stop {unit}" in log
    assert f"start {unit}" in log
    assert f"Before={unit}" in node.path("/etc/systemd/system/numaforge-tuning.service").read_text()
    assert not node.path(f"{DROP_IN_DIR}/90-numaforge.conf").exists()
    code, said = site(tmp_path, node, "-y")
    assert (code, "1 host: 1 unchanged" in said) == (0, True), said


def test_a_kubelet_that_does_not_come_up_gets_its_own_settings_back(
    start_sandbox: StartSandbox, port: int, tmp_path: Path
) -> None:
    unit, _, folder, _ = LAYOUTS["k3s"]
    node = node_of("k3s", start_sandbox, port)
    kubelet = node.path("/usr/local/bin/kubelet")
    kubelet.write_text(kubelet.read_text().replace('if "crash" in wish:', 'if "static" in wish:'))
    code, said = site(tmp_path, node, "-y")
    assert code == 1
    assert "rolled back" in said
    assert not node.path(f"{folder}/90-numaforge.conf").exists()
    assert node.run(f"systemctl show -p ActiveState,MainPID {unit}").stdout.startswith("ActiveState=active")
