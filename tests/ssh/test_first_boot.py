"""A node that plans itself before its kubelet starts, in a sandbox: what stands before each start is run."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from numaforge.change.look import GUARD
from numaforge.image.first_boot.hardware import MACHINES, written
from numaforge.image.first_boot.stamp import PROGRAM, boot_script
from numaforge.machine.topology.document import from_document
from numaforge.machine.topology.saved import ready_machine
from tests.ssh.conftest import StartSandbox
from tests.ssh.images import (
    DRIVER_PARAMETERS,
    GPU,
    NUMAFORGE,
    OWN,
    PROFILE,
    SETTINGS,
    image_files,
    prepare,
    write,
)
from tests.ssh.kubeadm import CONFIG, UNIT
from tests.ssh.kubelet_runs import data
from tests.ssh.machine import governor
from tests.ssh.pods import pod
from tests.ssh.sandbox import Sandbox, pyinfra, succeed
from tests.ssh.standin_systemd import DROP_IN, STATE
from tests.ssh.uninstalls import left

UNIT_DROP_IN = "/etc/systemd/system/kubelet.service.d/90-numaforge.conf"
WRITTEN = "/etc/numaforge/profile.yaml"
RECORD = "/var/lib/numaforge/boot/record.json"
ISSUE = "/run/issue.d/numaforge.issue"
MACHINE_ID = "/etc/machine-id"
SYSTEM_UUID = "/sys/class/dmi/id/product_uuid"
LOGIN = "/etc/kubernetes/kubelet.conf"
NO_CLUSTER = "this machine has joined no cluster: nothing to report to\n"
MEMINFO = "/sys/devices/system/node/node1/meminfo"


REHEARSALS = {
    "stat": 'case $* in */sys/fs/cgroup) echo cgroup2fs ;; *) exec /usr/bin/stat "$@" ;; esac',
    "containerd": "",
    "systemd-run": r"""case $* in *numaforge-rehearsal*) ;; *) exec systemd-run.own "$@" ;; esac
while [ "$1" != alone ]; do shift; done
if grep -q '^file ' "$2/data"; then
    echo outcome ended
    words='E1129 00:00:00.000000 1 run.go:72] "command failed" err="a rule of its own"'
    echo "output $(echo "$words" | base64 -w 0)"
else
    echo outcome started
fi""",
}
"""Programs by name, of a node whose kubelet starts with its present files and not with planned ones."""


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node of an image: its kubelet was never started."""
    node = start_sandbox(image_files(port))
    prepare(node)
    return node


def before_kubelet(node: Sandbox) -> CompletedProcess[str]:
    """Do what the unit does before the kubelet, and the kubelet's own condition."""
    return node.run(boot_script())


def planned(node: Sandbox) -> int:
    """Return how often numaforge was started."""
    file = node.path("/run/planned")
    return len(file.read_text()) if file.exists() else 0


def let_start(node: Sandbox, plans: int | None = None) -> CompletedProcess[str]:
    """Do what stands before the kubelet, which may start then; numaforge has planned `plans` times in all."""
    done = before_kubelet(node)
    assert done.returncode == 0, done.stderr
    assert plans in (None, planned(node)), done.stderr
    return done


def held(node: Sandbox) -> str:
    """Return why the kubelet is not started, as a person reads it without a login."""
    done = before_kubelet(node)
    assert done.returncode != 0
    said = node.path(ISSUE).read_text()
    assert said.startswith("numaforge: the kubelet is not started: ")
    assert done.stderr.startswith(said), "the reason comes first"
    assert "Traceback" not in said
    return said


def test_first_boot_plans_the_node_and_systemd_starts_the_kubelet(node):
    let_start(node)
    assert "reservedSystemCPUs" in node.path(DROP_IN).read_text()
    assert node.path(governor(0)).read_text() == "performance\n"
    assert json.loads(node.path("/etc/numaforge/plan.json").read_text())["profile"] == "own"
    assert not node.path(STATE).exists(), "the kubelet was started"
    record = json.loads(node.path(RECORD).read_text())
    assert (record["profile"], record["named_by"]) == ("own", f"{SETTINGS}: profile")


def test_unchanged_node_runs_only_a_shell(node):
    let_start(node)
    let_start(node, 1)


CHANGES: dict[str, tuple[Callable[[Sandbox], object], str]] = {
    "less memory in a NUMA node": (
        lambda node: node.run(f"sed -i s/8388608/4194304/ {MEMINFO}"),
        "memory-of-NUMA-node-1 was ",
    ),
    "a GPU less": (lambda node: node.run(f"rm -r {GPU}"), "PCI-function-0000:17:00.0 is gone: 10de:2330"),
    "another driver": (
        lambda node: node.run("mkdir -p /sys/module/nvidia && echo 615.1 > /sys/module/nvidia/version"),
        "driver-nvidia is new: 615.1",
    ),
    "another memory mode of the GPUs": (
        lambda node: write(node, DRIVER_PARAMETERS, 'CoherentGPUMemoryMode: "driver"\n'),
        'GPU-memory-mode was "numa", and is "driver"',
    ),
    "another kernel": (
        lambda node: write(node, "/proc/sys/kernel/osrelease", "6.12.0\n"),
        "kernel was 6.1.0, and is 6.12.0",
    ),
    "another profile": (lambda node: write(node, OWN, PROFILE.replace("1Gi", "2Gi")), f"file-{OWN} was "),
    "another source of the profile": (
        lambda node: write(node, WRITTEN, PROFILE),
        f"the profile was named by {SETTINGS}: profile, and is by {WRITTEN}",
    ),
    "another profile by the kernel's command line": (
        lambda node: write(node, "/proc/cmdline", "ro numaforge.profile=cpu-only\n"),
        "profile-of-kernel is new: cpu-only",
    ),
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("change", CHANGES)
def test_changed_machine_is_replanned_and_the_change_named(change, node):
    let_start(node)
    CHANGES[change][0](node)
    assert CHANGES[change][1] in let_start(node, 2).stderr
    let_start(node, 2)


@pytest.mark.long
def test_memory_reserved_by_kernel_does_not_count_as_change(node):
    write(node, SETTINGS, "{profile: own, on_change: hold}\n")
    let_start(node)
    write(node, MEMINFO, node.path(MEMINFO).read_text().replace("MemTotal: 8388608", "MemTotal: 8343336"))
    let_start(node, 1)


def test_edited_numaforge_file_is_restored(node):
    let_start(node)
    as_planned = node.path(DROP_IN).read_text()
    write(node, DROP_IN, "edited\n")
    let_start(node)
    assert node.path(DROP_IN).read_text() == as_planned


@pytest.mark.long
def test_changed_kubelet_unit_program_or_settings_are_replanned(node):
    config, kubelet = "/etc/kubernetes/kubelet-config.yaml", "/usr/local/bin/kubelet"
    node.run(f"mkdir -p /etc/kubernetes; mv {CONFIG} {config}")
    write(
        node,
        UNIT,
        f"[Service]\nEnvironmentFile=-/etc/default/kubelet\nExecStart={kubelet} --config={config}\n",
    )
    let_start(node)
    let_start(node, 1)
    changes = {
        config: f"echo '# more' >> {config}",
        UNIT: f"echo 'ExecStart=\nExecStart={kubelet} --config={config} --v=3' >> {UNIT}",
        kubelet: f"echo >> {kubelet}",
        "/etc/default/kubelet": "echo ARGS=--v=4 > /etc/default/kubelet",
    }
    for number, (path, command) in enumerate(changes.items(), 2):
        node.run(command)
        assert f"file-{path} " in let_start(node, number).stderr
        let_start(node, number)
    assert f"ExecStart={kubelet} --config={config} --v=3 --config-dir=" in node.path(UNIT_DROP_IN).read_text()


@pytest.mark.long
def test_on_change_hold_keeps_changed_machine_held_until_replanned(node):
    write(node, SETTINGS, "{profile: own, on_change: hold}\n")
    let_start(node)
    node.run(f"rm -r {GPU}")
    assert "PCI-function-0000:17:00.0 is gone" in held(node)
    assert node.run(f"{NUMAFORGE} boot --replan").returncode == 0
    let_start(node)
    assert not node.path(ISSUE).exists(), "what was complained of is mended"


@pytest.mark.variants(1)
@pytest.mark.parametrize("joined", [False, True], ids=["before it has joined", "once it has joined"])
def test_on_change_hold_lets_kubeadm_write_kubelet_files(joined, node):
    write(node, SETTINGS, "{profile: own, on_change: hold}\n")
    node.run(f"mkdir -p /etc/kubernetes; mv {CONFIG} /run/config.yaml")
    let_start(node)
    if joined:
        write(node, LOGIN, "a login\n")
    node.run(f"mv /run/config.yaml {CONFIG}")
    if joined:
        assert f"file-{CONFIG} is new" in held(node)
        return
    let_start(node, 2)
    let_start(node, 2)


@pytest.mark.long
def test_disk_moved_to_another_machine_is_planned_even_with_on_change_hold(node):
    write(node, SETTINGS, "{profile: own, on_change: hold}\n")
    let_start(node)
    write(node, MACHINE_ID, "0123456789abcdef0123456789abcdef\n")
    let_start(node)


@pytest.mark.variants(1)
@pytest.mark.parametrize("joined", [False, True], ids=["before it has joined", "once it has joined"])
def test_copied_disk_is_planned_again_and_never_runs_with_the_first_login(joined, node):
    assert before_kubelet(node).returncode == 0
    write(node, SYSTEM_UUID, "3-2-1\n")
    if not joined:
        let_start(node, 2)
        return
    write(node, LOGIN, "a login\n")
    assert f"UUID 1-2-3, is in 3-2-1, and has the first one's login to its cluster, {LOGIN}" in held(node)
    assert node.run(f"{NUMAFORGE} boot --report").stdout == NO_CLUSTER
    assert node.run(f"{NUMAFORGE} boot --replan").returncode == 0
    assert before_kubelet(node).returncode == 0


@pytest.mark.long
def test_start_unaligned_starts_the_kubelet_of_an_unplannable_machine(node):
    write(node, SETTINGS, "{profile: own, on_change: start-unaligned}\n")
    let_start(node)
    write(node, OWN, PROFILE.replace("1Gi", "900Gi"))
    let_start(node)
    assert not node.path(DROP_IN).exists()
    assert json.loads(node.path(RECORD).read_text())["named_by"] == "on_change: start-unaligned"


MISTAKES = {
    "a profile that the machine cannot meet": ({OWN: PROFILE.replace("1Gi", "900Gi")}, "900Gi"),
    "no profile": ({SETTINGS: "{}\n"}, "no profile is named"),
    "GPUs that do not come": (
        {SETTINGS: "{profile: own, gpus: 8, wait_seconds: 1}\n"},
        "1 of 8 GPUs are there after 1 s",
    ),
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_unplannable_node_is_left_unchanged_and_reason_reported(mistake, node):
    files, why = MISTAKES[mistake]
    for path, text in files.items():
        write(node, path, text)
    assert why in held(node)
    assert not node.path(DROP_IN).exists()
    assert not node.path(RECORD).exists()


@pytest.mark.long
def test_only_a_machine_that_the_image_expects_is_planned(node):
    node.run(f"mkdir -p {MACHINES}")
    write(node, f"{MACHINES}/dgx.json", written(ready_machine("dgx-h100")))
    assert "the image was not made for this machine; it differs from dgx: CPUs is " in held(node)
    own = json.loads(node.run(f"{NUMAFORGE} topology -o json").stdout)
    write(node, f"{MACHINES}/own.json", written(from_document(own)))
    done = let_start(node)
    assert "as the image expects it: own" in done.stderr


def test_planned_mig_without_driver_holds_kubelet(node):
    write(node, OWN, PROFILE + "mig: {gpus: [{devices: {1g: all}}]}\n")
    said = held(node)
    assert "0000:17:00.0: NVML does not report this GPU's instances" in said
    assert "libnvidia-ml.so.1" in said


def test_plan_refused_by_the_kubelet_rehearsal_is_not_applied(node):
    node.run("mv /usr/local/bin/systemd-run /usr/local/bin/systemd-run.own")
    for name, text in REHEARSALS.items():
        write(node, f"/usr/local/bin/{name}", f"#!/bin/sh\n{text}\n")
        node.run(f"chmod 755 /usr/local/bin/{name}")
    for _ in range(2):
        said = held(node)
        assert "the plan of profile own was not applied, and is not tried again" in said
        assert "the kubelet refuses the plan in its rehearsal: a rule of its own" in said
        assert not node.path(DROP_IN).exists()
    assert planned(node) == 2, "the second start is held without another plan"
    write(node, OWN, f"{PROFILE}maintenance: {{rehearsal: never}}\n")
    let_start(node)
    assert node.path(DROP_IN).exists()


def test_missing_numaforge_holds_the_kubelet(node):
    node.run(f"rm {PROGRAM}")
    assert f"{PROGRAM}: " in held(node)  # what follows is the shell's own words


def test_start_blocked_by_another_start_fails_after_a_limit(node):
    node.run("mkdir -p /run/numaforge/boot; flock /run/numaforge/boot/lock sleep 60 > /dev/null 2>&1 &")
    node.run("until [ -e /run/numaforge/boot/lock ]; do sleep 0.05; done")
    done = node.run(boot_script().replace("LOCK_SECONDS=900", "LOCK_SECONDS=1"))
    assert done.returncode != 0
    assert "another start of it has planned this node for 1 s" in done.stderr
    assert planned(node) == 0


def test_read_only_state_folder_holds_the_kubelet(node):
    node.run("mkdir -p /var/lib/numaforge && mount -t tmpfs -o ro,mode=755 tmpfs /var/lib/numaforge")
    assert "ead-only" in held(node)


@pytest.mark.long
def test_read_only_usr_puts_programs_under_var_lib(node):
    assert node.run("mount --bind /usr /usr && mount -o remount,bind,ro /usr").returncode == 0
    wish = yaml.safe_load(PROFILE)
    wish["kubelet"]["memory_manager_policy"] = "Static"
    interrupts = {"default_affinity": "reserved", "irqbalance": "off"}
    write(node, OWN, yaml.safe_dump({**wish, "interrupts": interrupts, "watch": {"enabled": True}}))
    let_start(node)
    programs = {path.name for path in node.path("/var/lib/numaforge/lib").iterdir()}
    assert programs == {"memory-state.sh", "interrupts.sh", "watch.sh"}
    let_start(node)
    assert planned(node) == 1


def test_interrupted_change_is_finished_at_the_next_start(node):
    node.run("mkdir -p /run/when")
    write(node, "/run/when/apply kernel_values", "#!/bin/sh\nkill -9 $PPID\n")
    node.run("chmod 755 /run/when/*")
    before_kubelet(node)
    node.run("rm -rf /run/when")
    let_start(node)
    assert "reservedSystemCPUs" in node.path(DROP_IN).read_text()


@pytest.mark.long
def test_pods_that_survive_a_kubelet_restart_are_not_disturbed(node):
    let_start(node)
    process = pod(node)
    write(node, OWN, PROFILE.replace("1Gi", "2Gi"))
    said = held(node)
    assert f"pods are alive: process {process}" in said
    node.run(f"kill -9 {process}")
    let_start(node)


PKI = "/var/lib/kubelet/pki"


@pytest.mark.long
@pytest.mark.parametrize(
    ("certificate", "key", "left"), [("", "", ""), ("pem", "", ""), ("pem", "pem", "pem")]
)
def test_kubelet_certificate_emptied_by_power_loss_is_removed(certificate, key, left, node):
    node.run(f"mkdir -p {PKI}")
    write(node, f"{PKI}/kubelet.crt", certificate)
    write(node, f"{PKI}/kubelet.key", key)
    done = let_start(node)
    for name in ("kubelet.crt", "kubelet.key"):
        file = node.path(f"{PKI}/{name}")
        assert (file.read_text() if file.exists() else "") == left
    assert ("is empty" in done.stderr) is (left == "")


@pytest.mark.long
def test_run_over_ssh_that_a_self_planned_node_would_revert_is_refused(node, tmp_path):
    node.run(f"mkdir -p {Path(GUARD).parent}")
    write(node, GUARD, "[Service]\n")
    let_start(node)
    succeed(tmp_path, data(node, numaforge_profile=yaml.safe_load(PROFILE)), "-y", "deploys/site.py")
    before = left(node)
    other = {**yaml.safe_load(PROFILE), "tuning": {"governor": "powersave"}}
    refused = pyinfra(tmp_path, data(node, numaforge_profile=other), "-y", "deploys/site.py")
    assert refused.returncode != 0
    assert "this node plans itself before each start of its kubelet" in refused.stdout
    assert left(node) == before


def test_unjoined_node_reports_to_no_cluster(node):
    node.run(f"rm -f {LOGIN}; mkdir -p /run/issue.d")
    write(node, ISSUE, "numaforge: the kubelet is not started: why\n")
    done = node.run(f"{NUMAFORGE} boot --report")
    assert (done.returncode, done.stdout) == (0, NO_CLUSTER)


def test_report_says_that_it_waits_for_the_kubelets_login(node):
    done = node.run(
        f"{NUMAFORGE} boot --report > /run/report 2>&1 & "
        "until [ -s /run/report ]; do kill -0 $! || exit 1; sleep 0.05; done; kill $!; cat /run/report"
    )
    assert (done.returncode, done.stdout) == (
        0,
        "the kubelet has no login yet (/etc/kubernetes/kubelet.conf): waits for it for 600 s\n",
    )


def test_report_false_contacts_no_api_server(node):
    write(node, SETTINGS, "profile: own\nreport: false\n")
    done = node.run(f"{NUMAFORGE} boot --report")
    assert (done.returncode, done.stdout) == (0, "boot.yaml turns reports off for this node\n")
