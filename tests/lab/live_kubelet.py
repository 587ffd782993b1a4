"""The lab's kubelet as something to be started with a configuration, given pods, and asked what it decided.

Admission is what is of interest, so the pods do not run: they mount a file that does not exist, for which the
kubelet waits after it has admitted them. It runs its admit handlers on one pod after the other in the order
in which the API server tells it of them, so pods are given to it in bursts.
"""

import base64
import http.client
import json
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from lab.cluster import GPU_RESOURCE, Lab
from lab.errors import LabError
from numaforge.kubelet.admission.device_manager import Device
from numaforge.kubelet.admission.fit import Scenario
from numaforge.kubelet.admission.node import Admission, Node
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.kubelet_paths import CONFIG_PATH, DROP_IN_DIR, ROOT_DIR
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.topology.read import read_topology
from tests.fixtures.kubelet_texts import settings_of

PODS = "/api/v1/namespaces/default/pods"
STATE_FILES = ("cpu_manager_state", "memory_manager_state", "device-plugins/kubelet_internal_checkpoint")
HUGEPAGES_PER_NUMA_NODE = 32
DECIDED_WITHIN_S = 240
STARTED_WITHIN_S = 240
NEVER = "never"
PROBE = "probe"

Verdict = dict[str, Any]


class Api:
    """The API server, asked with the administrator's key."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as identity:
            identity.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            identity.flush()
            context.load_cert_chain(identity.name)
        address = cluster["server"].removeprefix("https://")
        self._connection = http.client.HTTPSConnection(address, context=context, timeout=60)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer; raise LabError with the API server's complaint."""
        content = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):
            # The server ends a connection that was idle, before it reads what comes over it.
            self._connection.close()
            self._connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
        text = answer.read().decode()
        if answer.status >= http.client.BAD_REQUEST:
            raise LabError(f"{method} {path}: {json.loads(text)['message']}")
        return json.loads(text)


class Shell:
    """A shell on the node that stays logged in."""

    def __init__(self, login: list[str]) -> None:
        self._process = subprocess.Popen(
            [*login, "sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, commands: str) -> str:
        """Return what the commands print; raise when the last one fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{ {commands}\n}} </dev/null; status=$?; echo; echo END $status\n")
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            if line.startswith("END "):
                if line != "END 0\n":
                    raise LabError(f"{commands!r} ended with {line[4:].strip()}: {''.join(printed)}")
                return "".join(printed)
            printed.append(line)
        raise LabError(f"the shell on the node ended: {''.join(printed)}")

    def close(self) -> None:
        """Log out."""
        self._process.communicate()


@dataclass(frozen=True)
class State:
    """What the three state files hold, by pod UID."""

    cpus: Mapping[str, Mapping[str, str]]
    memory: Mapping[str, Mapping[str, list[Mapping[str, Any]]]]
    devices: list[Mapping[str, Any]]

    def of(self, uid: str) -> Verdict:
        """Return what one pod holds, by container."""
        devices: dict[str, dict[str, list[str]]] = {}
        for entry in self.devices:
            if entry["PodUID"] == uid:
                ids = sorted(device for listed in entry["DeviceIDs"].values() for device in listed)
                devices.setdefault(entry["ContainerName"], {})[entry["ResourceName"]] = ids
        return {
            "cpus": {
                name: format_cpulist(parse_cpulist(cpus)) for name, cpus in self.cpus.get(uid, {}).items()
            },
            "memory": {
                name: sorted(
                    f"{b['type']}@[{' '.join(map(str, b['numaAffinity']))}]={b['size']}" for b in blocks
                )
                for name, blocks in self.memory.get(uid, {}).items()
                if blocks
            },
            "devices": devices,
        }


class LiveKubelet:
    """The kubelet of the lab's first node, and the simulator's idea of it."""

    def __init__(self, lab: Lab) -> None:
        self._node = lab.nodes[0]
        self._api = Api(lab.kubeconfig)
        self._shell = Shell(self._node.ssh_arguments())
        pools = "/sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages"
        self._shell.run(
            f"mkdir -p {DROP_IN_DIR} && rm -f {DROP_IN_DIR}/* && "
            f"for pool in {pools}; do echo {HUGEPAGES_PER_NUMA_NODE} >$pool || exit 1; done"
        )
        self._main_file = self._shell.run(f"cat {CONFIG_PATH}")
        self.topology = read_topology(parse_output(self._node.run("sh -s", input_text=script())))
        self._devices = {
            GPU_RESOURCE: [
                Device(gpu.pci_address, None if gpu.numa_node is None else frozenset({gpu.numa_node}))
                for gpu in self.topology.gpus
            ]
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shell.close()

    def simulator(self, settings: Mapping[str, Any]) -> Node:
        """Return the simulator of this kubelet with `settings` in a drop-in, nothing admitted yet."""
        config = settings_of(self._main_file, {"50-admission.conf": _drop_in(settings)})
        return Node(self.topology, config, self._devices)

    def scenario(self, settings: Mapping[str, Any]) -> Scenario:
        """Return the node with `settings` in a drop-in, and its state files as they are now."""
        config = settings_of(self._main_file, {"50-admission.conf": _drop_in(settings)})
        devices = {resource: tuple(listed) for resource, listed in self._devices.items()}
        return Scenario(self.topology, config, devices, self.state_files())

    def node(self) -> dict[str, Any]:
        """Return the Node as the API server has it."""
        found: dict[str, Any] = self._api.call("GET", f"/api/v1/nodes/{self._node.name}")
        return {"kind": "Node", **found}

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods as the API server has them, those of the cluster itself too."""
        return [{"kind": "Pod", **each} for each in self._api.call("GET", "/api/v1/pods")["items"]]

    def start(self, settings: Mapping[str, Any], *, cgroups: bool = False) -> None:
        """Start the kubelet afresh with `settings`, and return when it admits pods under them.

        Without `cgroups` it makes none for pods, which spares the emulated node half of the work.
        """
        self._api.call("DELETE", PODS)
        own = {} if cgroups else {"cgroupsPerQOS": False, "enforceNodeAllocatable": []}
        environment = f"KUBELET_EXTRA_ARGS=--config-dir={DROP_IN_DIR} GOMAXPROCS=2"
        self._shell.run(
            "systemctl stop kubelet\n"
            f"printf '%s\\n' {environment} >/etc/default/kubelet\n"
            f"cat >{DROP_IN_DIR}/50-admission.conf <<'END-OF-FILE'\n"
            f"{_drop_in({**settings, **own})}\nEND-OF-FILE\n"
            f"cd {ROOT_DIR} && rm -rf {' '.join(STATE_FILES)} *pods_state pods/*\n"
            "systemctl start kubelet"
        )
        self._await(self._offers_devices, STARTED_WITHIN_S, "its device plugin has registered")
        expected = self.simulator(settings).allocatable.memory_bytes
        self._await(
            lambda: self._memory_seen_by_predicates() == expected,
            STARTED_WITHIN_S,
            f"it sees its node with {expected} bytes of memory allocatable",
        )

    def create(self, pod: Mapping[str, Any], *, runs: bool = False) -> str:
        """Give a pod to the kubelet and return its UID."""
        created = self._api.call("POST", PODS, _manifest(pod, self._node.name, runs=runs))
        return str(created["metadata"]["uid"])

    def delete(self, name: str) -> None:
        """Take a pod away: the kubelet learns of it before any pod that is created later."""
        self._api.call("DELETE", f"{PODS}/{name}")

    def verdicts(self, names: Iterable[str]) -> dict[str, Verdict]:
        """Return the kubelet's verdict on each pod once it has one on all of them."""
        wanted = set(names)
        found: dict[str, dict[str, Any]] = {}

        def all_decided() -> bool:
            pods = {pod["metadata"]["name"]: pod for pod in self._api.call("GET", PODS)["items"]}
            # The kubelet's first status carries its verdict and the time. Only before its first look at all
            # pods does it hide a refusal, as if the pod could have run (mergePodStatus): `start` waits.
            found.update({n: pods[n] for n in wanted if n in pods and "startTime" in pods[n]["status"]})
            return found.keys() == wanted

        self._await(all_decided, DECIDED_WITHIN_S, f"it has decided about {', '.join(sorted(wanted))}")
        state = self.state()
        return {name: _observed(pod, state) for name, pod in found.items()}

    def state(self) -> State:
        """Read the three state files in one round trip."""
        files = " ".join(f"{ROOT_DIR}/{name}" for name in STATE_FILES)
        printed = self._shell.run(f"for file in {files}; do cat $file && echo || exit 1; done")
        cpus, memory, devices = (json.loads(line) for line in printed.splitlines() if line)
        return State(
            cpus=cpus.get("entries") or {},
            memory=memory.get("entries") or {},
            devices=devices["Data"]["PodDeviceEntries"] or [],
        )

    def state_files(self) -> dict[str, str]:
        """Return the texts of the three state files by name, those that are there."""
        paths = {name.rpartition("/")[2]: f"{ROOT_DIR}/{name}" for name in STATE_FILES}
        printed = self._shell.run(
            "; ".join(
                f"test ! -e {path} || {{ cat {path}; echo; }}; echo END-OF-{name}"
                for name, path in paths.items()
            )
        )
        found = {}
        for name in paths:
            text, _, printed = printed.partition(f"END-OF-{name}\n")
            if text.strip():
                found[name] = text.strip()
        return found

    def await_running(self, name: str) -> None:
        """Return when a pod's app containers run."""

        def runs() -> bool:
            return bool(self._api.call("GET", f"{PODS}/{name}")["status"].get("phase") == "Running")

        self._await(runs, DECIDED_WITHIN_S, f"{name} runs")

    def _offers_devices(self) -> bool:
        checkpoint = f"{ROOT_DIR}/{STATE_FILES[2]}"
        printed = self._shell.run(f"test ! -e {checkpoint} || cat {checkpoint}")
        if not printed.strip():
            return False
        registered = json.loads(printed)["Data"]["RegisteredDevices"].get(GPU_RESOURCE, [])
        return len(registered) == len(self._devices[GPU_RESOURCE])

    def _memory_seen_by_predicates(self) -> int:
        """Return the Allocatable that the kubelet's predicates use, from the refusal of a pod too large."""
        pod = {
            "metadata": {"name": PROBE},
            "spec": {"containers": [{"name": "c0", "resources": {"requests": {"memory": "1Ei"}}}]},
        }
        self.create(pod)
        status: dict[str, Any] = {}

        def refused() -> bool:
            status.update(self._api.call("GET", f"{PODS}/{PROBE}")["status"])
            return bool(status["phase"] == "Failed")

        self._await(refused, DECIDED_WITHIN_S, f"it refuses {PROBE}")
        self.delete(PROBE)
        return int(status["message"].rpartition("capacity: ")[2])

    def _await(self, holds: Callable[[], bool], patience_s: float, what: str) -> None:
        deadline = time.monotonic() + patience_s
        while not holds():
            if time.monotonic() > deadline:
                log = self._shell.run("journalctl -u kubelet -n 30 --no-pager -o cat")
                raise LabError(
                    f"the kubelet does not get to where {what} within {patience_s:.0f} s:\n{log}",
                    where=self._node.name,
                )
            time.sleep(0.1)


def expected(admission: Admission) -> Verdict:
    """Return the simulator's answer in the form of a verdict."""
    if not admission.admitted:
        return {
            "qos": admission.qos,
            "admitted": False,
            "reason": admission.reason,
            "message": admission.status_message,
        }
    return {
        "qos": admission.qos,
        "admitted": True,
        "cpus": {name: format_cpulist(cpus) for name, cpus in admission.cpus.items()},
        "memory": {name: sorted(map(str, blocks)) for name, blocks in admission.memory.items() if blocks},
        "devices": {
            name: {resource: sorted(ids) for resource, ids in held.items()}
            for name, held in admission.devices.items()
            if held
        },
    }


def _observed(pod: Mapping[str, Any], state: State) -> Verdict:
    status = pod["status"]
    refused = status["phase"] == "Failed"
    verdict = {"qos": status["qosClass"], "admitted": not refused}
    if refused:
        return verdict | {"reason": status["reason"], "message": status["message"]}
    return verdict | state.of(pod["metadata"]["uid"])


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()


def _drop_in(settings: Mapping[str, Any]) -> str:
    header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return json.dumps({**header, **settings})


def _manifest(pod: Mapping[str, Any], node: str, *, runs: bool) -> dict[str, Any]:
    def completed(container: Mapping[str, Any], command: list[str]) -> dict[str, Any]:
        image = {"image": "lab.example/busybox:1", "imagePullPolicy": "Never", "command": command}
        mounts = {} if runs else {"volumeMounts": [{"name": NEVER, "mountPath": f"/{NEVER}"}]}
        return {**image, **mounts, **container}

    spec: dict[str, Any] = {
        "nodeName": node,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [completed(c, ["sleep", "100000"]) for c in pod["spec"]["containers"]],
        "initContainers": [
            completed(c, ["sleep", "100000"] if "restartPolicy" in c else ["true"])
            for c in pod["spec"].get("initContainers", [])
        ],
    }
    if not runs:
        spec["volumes"] = [{"name": NEVER, "hostPath": {"path": f"/{NEVER}", "type": "File"}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": spec}
