"""The documented Job: an API server takes it, its pods' login works, and its shards change each host once."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from lab.kwok import Fleet
from lab.paths import REPOSITORY
from numaforge.rollout.kubectl import KubectlCluster
from numaforge.rollout.lead import ROLLOUT, read_state
from numaforge.rollout.names import ENDED
from numaforge.rollout.record import node_leases, unfinished
from numaforge.rollout.shards import FAR, shard_of
from numaforge.rollout.slots import held_slots
from tests.fixtures.processes import kill_tree
from tests.lab.fleet import Observer
from tests.lab.job_manifests import inventory_as_pyinfra_reads_it
from tests.ssh.sandbox import Sandbox, cannot_run, running_sandbox

JOB = REPOSITORY / "docs" / "rollout-job.yaml"
AUDIT_JOB = REPOSITORY / "docs" / "audit-job.yaml"
IMAGE = REPOSITORY / "docs" / "Containerfile"
RBAC = REPOSITORY / "docs" / "rollout-rbac.yaml"
DEPLOY = REPOSITORY / "tests" / "lab" / "change_in_a_file.py"
SHARDS = 3
HOSTS = 8


def kubectl(fleet: Fleet, *arguments: str) -> str:
    done = fleet.kubectl(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def manifest(kind: str) -> dict:
    (found,) = [each for each in yaml.safe_load_all(JOB.read_text()) if each["kind"] == kind]
    return found


# ---- the manifest ----


def taken(fleet: Fleet, file: Path) -> dict[str, dict]:
    """Return the objects of a file, by kind, as a strict API server would keep them."""
    strictly = ("--dry-run=server", "--validate=strict", "--output=yaml")
    text = kubectl(fleet, "create", *strictly, f"--filename={file}")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def test_api_server_accepts_the_audit_job(fleet):
    found = taken(fleet, AUDIT_JOB)
    assert {*found} == {"ConfigMap", "PersistentVolumeClaim", "CronJob"}
    assert found["CronJob"]["spec"]["concurrencyPolicy"] == "Forbid"


def test_api_server_accepts_the_rollout_job(fleet):
    kubectl(fleet, "apply", f"--filename={RBAC}")
    job = taken(fleet, JOB)["Job"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["backoffLimitPerIndex"] == 6
    account = job["spec"]["template"]["spec"]["serviceAccountName"]
    kubectl(fleet, "get", "serviceaccount", account, "--namespace=numaforge")


def test_job_has_one_pod_per_shard():
    spec = manifest("Job")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (shard,) = [argument for argument in container["args"] if argument.startswith("--shard=")]
    assert shard == f"--shard=$JOB_COMPLETION_INDEX/{spec['completions']}"


def test_image_runs_as_the_manifest_user():
    (user,) = re.findall(r"^USER (\d+):\d+$", IMAGE.read_text(), re.MULTILINE)
    security = manifest("Job")["spec"]["template"]["spec"]["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"]) == (True, int(user))


def test_pyinfra_reads_the_inventory_of_the_manifest(tmp_path):
    shown = inventory_as_pyinfra_reads_it(manifest("ConfigMap")["data"], tmp_path)
    assert "gpu-004" in shown
    assert "/etc/numaforge/ssh/known_hosts" in shown


# ---- the login of a pod ----

_IN_A_POD = """
set -eu
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$SECRETS/token" "$SECRETS/ca.crt" /run/secrets/kubernetes.io/serviceaccount/
exec "$@"
"""


def in_a_pod(fleet: Fleet, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command where a pod's service account is mounted, and nothing says where a kubeconfig is."""
    secrets, home = folder / "secrets", folder / "home"
    secrets.mkdir()
    home.mkdir()
    token = kubectl(fleet, "create", "token", "numaforge-rollout", "--namespace=numaforge").strip()
    (secrets / "token").write_text(token)
    config = yaml.safe_load(fleet.kubeconfig.read_text())
    authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
    (secrets / "ca.crt").write_text(
        subprocess.run(
            ["base64", "--decode"], input=authority, capture_output=True, text=True, check=True
        ).stdout
    )
    without = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", _IN_A_POD, "sh", *command],
        env={
            **without,
            "HOME": str(home),
            "SECRETS": str(secrets),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(fleet.control_plane.ports["apiserver"]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_job_pod_needs_no_kubeconfig(fleet, tmp_path):
    if reason := cannot_run():
        pytest.skip(reason)
    kubectl(fleet, "apply", f"--filename={RBAC}")
    program = str(Path(sys.executable).with_name("numaforge"))
    asked = [program, "rollout", "status", "--kubectl", str(fleet.control_plane.kubectl())]
    fleet.wait_until(lambda: _may_list_nodes(fleet), "does not know the role")
    done = in_a_pod(fleet, tmp_path, *asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no roll-out has been here" in done.stdout


def _may_list_nodes(fleet: Fleet) -> bool:
    account = "system:serviceaccount:numaforge:numaforge-rollout"
    return fleet.kubectl("auth", "can-i", "list", "nodes", f"--as={account}").returncode == 0


# ---- its shards, as processes ----


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """An sshd, which is every host of the inventory."""
    if reason := cannot_run():
        pytest.skip(reason)
    folder = tmp_path / "sandbox"
    folder.mkdir()
    with ExitStack() as stack:
        yield stack.enter_context(running_sandbox(folder, {}))


def start(index: int, inventory: Path, state: Path) -> subprocess.Popen[bytes]:
    """Start the process of a pod with that index, as the manifest does."""
    (container,) = manifest("Job")["spec"]["template"]["spec"]["containers"]
    words = [word for word in container["args"] if word.startswith("-") or word in ("rollout", "resume")]
    shard = f"--shard=$JOB_COMPLETION_INDEX/{SHARDS}"
    replaced = {"--name=$(ROLLOUT)": "--name=job", "--shard=$JOB_COMPLETION_INDEX/4": shard}
    arguments = [replaced.get(word, word) for word in words]
    program = str(Path(sys.executable).with_name("numaforge"))
    state.mkdir(exist_ok=True)
    return subprocess.Popen(
        [program, *arguments, "-o", "json", f"--deploy={DEPLOY}", str(inventory)],
        cwd=REPOSITORY,
        env={**os.environ, "JOB_COMPLETION_INDEX": str(index), "XDG_STATE_HOME": str(state)},
        stdin=subprocess.DEVNULL,
        stdout=(state / f"{index}.json").open("ab"),
        stderr=(state / f"{index}.err").open("ab"),
        start_new_session=True,
    )


@pytest.mark.long
def test_each_host_is_changed_once_despite_a_killed_and_replaced_shard(fleet, sandbox, tmp_path):
    names = fleet.add_nodes(HOSTS)
    shard_with_most, _ = Counter(shard_of(name, SHARDS) for name in names).most_common(1)[0]
    changes = tmp_path / "changes"
    changes.mkdir()
    options = {
        "kubeconfig": str(fleet.kubeconfig),
        "kubectl": str(fleet.control_plane.kubectl()),
        "max_unavailable": "2",
        "pool": "",
        "settle_seconds": 1,
        "verify": False,
    }
    data = {**sandbox.data(), "changes": str(changes), "numaforge_rollout": options}
    inventory = tmp_path / "inventory.py"
    inventory.write_text(f"nodes = {[(name, data) for name in names]!r}\n")
    state = tmp_path / "state"
    pods: dict[int, subprocess.Popen[bytes]] = {}
    with KubectlCluster(fleet.kubeconfig, kubectl=options["kubectl"]) as cluster, Observer(fleet) as observer:
        try:
            pods = {index: start(index, inventory, state) for index in range(SHARDS)}

            def in_the_middle() -> bool:
                begun = unfinished(cluster.leases())
                return any(shard_of(name, SHARDS) == shard_with_most for name in begun)

            fleet.wait_until(in_the_middle, "has no node in the middle", 240)
            kill_tree(pods[shard_with_most])
            pods[shard_with_most] = start(shard_with_most, inventory, state)
            codes = {index: pod.wait(480) for index, pod in pods.items()}
        finally:
            for pod in pods.values():
                if pod.poll() is None:
                    kill_tree(pod)
        said = {index: (state / f"{index}.err").read_text() for index in pods}
        assert codes == dict.fromkeys(range(SHARDS), 0), said
        assert {name: (changes / name).read_text().count("\n") for name in names} == dict.fromkeys(names, 1)
        assert held_slots(cluster.leases()) == []
        assert not any(node.unschedulable for node in cluster.nodes())
        ended = node_leases(cluster.leases(ended=True))
        assert {name: lease.labels[ENDED] for name, lease in ended.items()} == dict.fromkeys(names, "done")
        leases = {lease.name: lease for lease in cluster.leases() if lease.name.startswith(f"{ROLLOUT}job.")}
        stages = [stage for lease in leases.values() for stage in read_state(lease)[FAR]["stages"].values()]
        assert {stage["hosts_left"] for stage in stages} == {0}
        assert not any(lease.holder for lease in leases.values())
    assert len(observer.most.out) <= 2
    first = min(shard_of(name, SHARDS) for name in names)
    assert shard_of(observer.order[0], SHARDS) == first
    report = json.loads((state / f"{shard_with_most}.json").read_text().splitlines()[-1])
    assert report["exit_code"] == 0
