"""k3s, RKE2 and MicroK8s in their own layout: unit, folder of drop-ins, arguments, version.

The layout is theirs; the kubelet and systemd are stand-ins, as none of them can be built here.
"""

from pathlib import Path

import pytest

from numaforge.lib.kubelet_paths import DROP_IN_DIR
from numaforge.verification.suite import failures
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, pyinfra, succeed
from tests.ssh.site_runs import PROFILE, data, plain
from tests.ssh.standin_systemd import standin_systemd
from tests.ssh.verifying import verified

pytestmark = pytest.mark.core("test_distribution_kubelet_gets_a_drop_in_and_its_unit_restarts")
WISH = {**PROFILE, "kubelet": {"cpu_manager_policy": "static"}}
MICROK8S_ARGUMENTS = "/var/snap/microk8s/current/args/kubelet"
MICROK8S_FOLDER = "/var/snap/microk8s/common/etc/kubelet.conf.d"
ARGUMENTS = """--cert-dir=${SNAP_DATA}/certs
--root-dir=${SNAP_COMMON}/var/lib/kubelet
--fail-swap-on=false
--eviction-hard="memory.available<100Mi,nodefs.available<1Gi,imagefs.available<1Gi"
--container-runtime-endpoint=${SNAP_COMMON}/run/containerd.sock
--healthz-port=PORT
"""
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
    "MicroK8s": ("snap.microk8s.daemon-kubelite.service", "/etc/systemd/system", MICROK8S_FOLDER, {}),
}
_READS_DROP_IN = "if drop_in.exists()"
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
    files = {f"{units}/{unit}": "[Service]\n"}
    if name == "MicroK8s":
        flag = f'"--config-dir={folder}\\n" in pathlib.Path({MICROK8S_ARGUMENTS!r}).read_text()'
        kubelet = stand_ins["/usr/local/bin/kubelet"]
        assert _READS_DROP_IN in kubelet
        stand_ins["/usr/local/bin/kubelet"] = kubelet.replace(_READS_DROP_IN, f"{_READS_DROP_IN} and {flag}")
        files[MICROK8S_ARGUMENTS] = ARGUMENTS.replace("PORT", str(port))
    else:
        files[f"{folder}/00-defaults.conf"] = (
            f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nhealthzPort: {port}\n"
        )
    node = start_sandbox({**machine(), **stand_ins, **programs, **files})
    node.run("chmod 755 /usr/local/bin/k3s; mkdir -p /run/systemd/system /run/cgroups")
    if name == "MicroK8s":
        node.run(
            "mkdir -p /snap/microk8s/current/meta /var/snap/microk8s/common/var/lib/kubelet; "
            "printf 'name: microk8s\\nversion: v1.36.5\\n' > /snap/microk8s/current/meta/snap.yaml; "
            "ln -s /var/snap/microk8s/common/var/lib/kubelet /var/lib/kubelet; "
            f"chmod 660 {MICROK8S_ARGUMENTS}; chmod 770 /var/snap/microk8s/current/args"
        )
    node.run(f"echo 0::/system.slice/{unit} > /run/cgroups/{unit}; systemctl start {unit}")
    node.run(
        f"until [ -e /var/lib/kubelet/cpu_manager_state ] && curl -fs 127.0.0.1:{port}; do sleep 0.05; done"
    )
    return node


def state_of(node: Sandbox) -> str:
    return node.run("cat /var/lib/kubelet/cpu_manager_state").stdout


def site(folder: Path, node: Sandbox, *options: str) -> tuple[int, str]:
    run = pyinfra(folder, {"gpu-01": data(node, WISH)}, *options, "deploys/site.py")
    return run.returncode, plain(run.stdout)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", LAYOUTS)
def test_distribution_kubelet_gets_a_drop_in_and_its_unit_restarts(start_sandbox, port, tmp_path, name):
    unit, _, folder, _ = LAYOUTS[name]
    node = node_of(name, start_sandbox, port)
    code, said = site(tmp_path, node, "-y")
    assert code == 0, said
    drop_in = node.path(f"{folder}/90-numaforge.conf").read_text()
    assert "cpuManagerPolicy: static" in drop_in
    assert '"policyName": "static"' in state_of(node)
    log = node.path("/run/systemctl.log").read_text()
    assert f"stop {unit}" in log
    assert f"start {unit}" in log
    assert f"Before={unit}" in node.path("/etc/systemd/system/numaforge-tuning.service").read_text()
    assert not node.path(f"{DROP_IN_DIR}/90-numaforge.conf").exists()
    code, said = site(tmp_path, node, "-y")
    assert (code, "1 host: 1 unchanged" in said) == (0, True), said


def test_failed_kubelet_start_restores_its_own_settings(start_sandbox, port, tmp_path):
    unit, _, folder, _ = LAYOUTS["MicroK8s"]
    node = node_of("MicroK8s", start_sandbox, port)
    before = node.path(MICROK8S_ARGUMENTS).read_text()
    kubelet = node.path("/usr/local/bin/kubelet")
    kubelet.write_text(kubelet.read_text().replace('if "crash" in wish:', 'if "static" in wish:'))
    code, said = site(tmp_path, node, "-y")
    assert code == 1
    assert "rolled back" in said
    assert not node.path(f"{folder}/90-numaforge.conf").exists()
    assert node.path(MICROK8S_ARGUMENTS).read_text() == before
    assert node.run(f"systemctl show -p ActiveState,MainPID {unit}").stdout.startswith("ActiveState=active")


def test_uninstall_restores_the_microk8s_arguments(start_sandbox, port, tmp_path):
    node = node_of("MicroK8s", start_sandbox, port)
    arguments = node.path(MICROK8S_ARGUMENTS)
    before = arguments.read_text()
    code, said = site(tmp_path, node, "-y")
    assert code == 0, said
    assert arguments.read_text().splitlines()[1:] == [*before.splitlines(), f"--config-dir={MICROK8S_FOLDER}"]
    assert not failures(verified(node, tmp_path, "-k", "test_file"))
    arguments.write_text(f"{arguments.read_text()}--max-pods=200\n")  # an admin's, or MicroK8s' own
    succeed(tmp_path, {"gpu-01": data(node, WISH)}, "-y", "deploys/uninstall.py")
    assert arguments.read_text() == f"{before}--max-pods=200\n"
    assert arguments.stat().st_mode & 0o7777 == 0o660
    assert not node.path(MICROK8S_FOLDER).exists()
    assert '"policyName": "none"' in state_of(node)


@pytest.mark.long
def test_group_writable_arguments_are_left_alone(start_sandbox, port, tmp_path):
    node = node_of("MicroK8s", start_sandbox, port)
    node.run("chgrp -R 100 /var/snap/microk8s/current/args")
    before = node.path(MICROK8S_ARGUMENTS).read_text()
    _, said = site(tmp_path, node, "-y")
    assert f"{MICROK8S_ARGUMENTS} was not read" in said
    assert node.path(MICROK8S_ARGUMENTS).read_text() == before
