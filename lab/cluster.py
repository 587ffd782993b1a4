"""Bring the lab up, reset it, take it down."""

from __future__ import annotations

import fcntl
import http.client
import json
import shutil
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from lab import cache, gobuild, pki, tsc
from lab import image as images
from lab.controlplane import PORT_NAMES, PROGRAMS, ControlPlane
from lab.errors import LabError
from lab.image import Image
from lab.interrupts import heed
from lab.machines import GPU_SERVER, Machine, machines
from lab.node import HOST_SEEN_FROM_NODE, KUBELET_PORT, UID_OF_USER, Node, emulator
from lab.paths import LAB, state_directory
from lab.ports import LOOPBACK, Reserved, is_free, reserve, reserve_block, started_on_free_ports
from lab.process import Daemon, daemons, end_living, living
from lab.progress import say, step

READY_WITHIN_S = 900
"""Per node: they share the cores with each other, and in `make test` with five workers."""
HEARD_WITHIN_S = 600
SETTLE_SECONDS = 2
"""How long a changed node of the lab is watched before its uncordon; real ones deserve more."""
GPU_RESOURCE = "nvidia.com/gpu"
_LAYOUT = "state.json"
_HOLDER = "ports"
_STORED = "state"
"""The folder of a lab in the cache: it holds keys, and only its owner may read it."""
_ONE_CONNECTION = """    ControlMaster auto
    ControlPath {state}/%r-%p
    ControlPersist yes
    ServerAliveInterval 60
"""
"""For nodes that are waited for over their boots: each login takes an emulated CPU two seconds."""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@dataclass(frozen=True)
class Layout:
    """The decisions of the lab's first start, recorded in `state.json`."""

    recipe: str
    """Hash of image, binaries, machine shapes and how they are started; another recipe makes a new lab."""
    block: int
    """The number of the block of ports that this lab reserves while it runs."""
    ports: dict[str, int]
    kubelet_network: str
    """The first three numbers of the loopback addresses that lead to the nodes' kubelets."""
    ssh_ports: dict[str, int]
    """By node name, in order."""
    saved: bool = False
    """Whether there is a saved state to return to."""


class Lab:
    """The lab of one state directory."""

    def __init__(
        self,
        state: Path | None = None,
        choose: Callable[[Callable[[Reserved], bool]], Reserved] = reserve,
        *,
        baked: bool = False,
        first: Machine = GPU_SERVER,
        gates: tuple[str, ...] = (),
        served: tuple[str, ...] = (),
    ) -> None:
        """Take the lab of a folder, whose first node is a machine like `first`.

        That of a `baked` image has nodes that plan themselves. `gates` and `served` are those of the control
        plane.
        """
        self.state = state or state_directory()
        self._choose_ports = choose
        self._baked = baked
        self._first = first
        self._more = {"gates": gates, "served": served}

    @property
    def kubeconfig(self) -> Path:
        return self.control_plane.kubeconfig

    @property
    def control_plane(self) -> ControlPlane:
        return ControlPlane(self.state, self._layout().ports, **self._more)

    @property
    def nodes(self) -> list[Node]:
        """The nodes of this lab, running or not."""
        layout = self._layout()
        shapes = machines(len(layout.ssh_ports), self._first)
        return [
            Node(name, shapes[name], self.state, port, f"{layout.kubelet_network}.{number}")
            for number, (name, port) in enumerate(layout.ssh_ports.items(), start=1)
        ]

    def node(self, name: str) -> Node:
        """Return the node of that name."""
        for node in self.nodes:
            if node.name == name:
                return node
        known = ", ".join(node.name for node in self.nodes)
        raise LabError(f"there is no node {name}", remedy=f"nodes of this lab: {known}")

    def running(self) -> bool:
        """Say whether every process of the lab lives."""
        if self._read_layout() is None:
            return False
        return self.control_plane.running() and all(node.daemon.pid() is not None for node in self.nodes)

    def require_running(self) -> None:
        """Raise when the lab is not running."""
        if not self.running():
            raise LabError("the lab is not running", remedy="bring it up: make lab-up")

    def up(self, count: int, *, boot: bool = False) -> None:
        """Return when `count` workers are Ready: at once, from a saved state, or from power-on.

        With `boot` no state that another lab has saved is taken. What has been started ends with a failure
        or an interrupt.
        """
        image = build(baked=self._baked)
        recipe = _recipe(image, machines(count, self._first), self._more)
        with self._locked():
            if self._has_recipe(recipe) and self.running():
                say("the lab is already running")
                return
            with self._ended_by_a_failure():
                self._stop_everything()
                if self._take_saved_state(image, recipe, count, boot) and self._restored():
                    return
                self._boot_anew(image, recipe, count)

    def prepare(self, count: int) -> None:
        """Have a saved state of `count` workers to return to; a lab that is running is left as it is."""
        image = build(baked=self._baked)
        recipe = _recipe(image, machines(count, self._first), self._more)
        with self._locked():
            if self.running():
                return
            with self._ended_by_a_failure():
                self._stop_everything()
                if not self._take_saved_state(image, recipe, count):
                    self._boot_anew(image, recipe, count)
                self._stop_everything()

    def down(self) -> None:
        """End every process of the lab; keys, disks and saved states stay."""
        if not self.state.exists() and not living(self.state):
            return
        with self._locked():
            self._stop_everything()

    def reset(self) -> None:
        """Put every node and the store back to the saved state."""
        with self._locked():
            self.require_running()
            if not self._layout().saved:
                raise LabError("there is no saved state", remedy="make lab-down lab-up")
            with self._ended_by_a_failure(), step("reset"):
                self._stop_programs()
                if not self._ports_are_reserved(self._layout()):
                    raise LabError("its ports are taken by another program", remedy="make lab-down lab-up")
                self._restore()

    def kubectl(self, *arguments: str, input_text: str | None = None) -> str:
        """Return kubectl's output; raise with its error when it fails."""
        done = subprocess.run(
            [str(self.control_plane.kubectl()), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=input_text,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LabError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """Return the object or the list that `kubectl get` finds."""
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def status(self) -> dict[str, Any]:
        """Describe the lab: its processes, and its nodes as the API sees them."""
        processes = {daemon.name: daemon.pid() for daemon in daemons(self.state)}
        if not self.running():
            recorded = {pid: name for name, pid in processes.items() if pid}
            others = {
                f"{name} ({pid})": pid for pid, name in living(self.state).items() if pid not in recorded
            }
            return {"running": False, "processes": {name: pid for pid, name in recorded.items()} | others}
        return {
            "running": True,
            "state_directory": str(self.state),
            "kubeconfig": str(self.kubeconfig),
            "saved_state": self._layout().saved,
            "processes": processes,
            "nodes": [
                {
                    "name": node.name,
                    "ready": _is_ready(document),
                    "version": document["status"]["nodeInfo"]["kubeletVersion"],
                    "allocatable": document["status"]["allocatable"],
                    "ssh_port": node.ssh_port,
                }
                for node in self.nodes
                for document in [self.control_plane.get(f"/api/v1/nodes/{node.name}")]
            ],
        }

    def inventory(self) -> dict[str, dict[str, Any]]:
        """Return pyinfra's host data for each running node, by name."""
        if not self.running():
            return {}
        return {
            node.name: {
                "ssh_hostname": LOOPBACK,
                "ssh_port": node.ssh_port,
                "ssh_user": "root",
                "ssh_key": str(self.state / "id_ed25519"),
                "ssh_known_hosts_file": str(self.state / "known_hosts"),
                "ssh_strict_host_key_checking": "yes",
                "numaforge_rollout": {
                    "kubeconfig": str(self.kubeconfig),
                    "kubectl": str(self.control_plane.kubectl()),
                    "settle_seconds": SETTLE_SECONDS,
                },
            }
            for node in self.nodes
        }

    def _has_recipe(self, recipe: str) -> bool:
        layout = self._read_layout()
        return layout is not None and layout.recipe == recipe

    def _has_saved(self, recipe: str) -> bool:
        return self._has_recipe(recipe) and self._layout().saved

    def _take_saved_state(self, image: Image, recipe: str, count: int, boot: bool = False) -> bool:
        """Have a state to restore, this lab's own or one from the cache; say False where none is of use.

        One from the cache has the ports of the lab that saved it. So there is one for each name of a lab's
        folder: labs of one checkout run side by side, and where those of two checkouts do, the second boots.
        Only labs of one node are kept there: each takes 700 MB.
        """
        if not self._has_saved(recipe):
            if boot or count != 1:
                return False
            # A booted kernel relies on the frequency that it measured.
            key = cache.digest([recipe, self.state.name, f"{tsc.frequency_khz() or 0:.3g}"])
            stored = cache.obtain("lab", key, lambda folder: self._store(folder, image, recipe, count))
            if not self._has_saved(recipe):
                self._empty()
                _copy(stored / _STORED, self.state)
                self._write_ssh_config()
        return self._ports_are_reserved(self._layout())

    def _store(self, folder: Path, image: Image, recipe: str, count: int) -> None:
        """Boot, save that state, and copy it to a folder of the cache."""
        self._boot_anew(image, recipe, count)
        self._stop_everything()
        _copy(self.state, folder / _STORED)

    def _empty(self) -> None:
        if self.state.exists():
            for path in self.state.iterdir():
                if path.name != "lock":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _create(self, image: Image, recipe: str, count: int) -> None:
        """Choose ports, make keys and certificates, and write one empty disk per node."""
        self._empty()
        names = list(machines(count, self._first))
        reserved = self._choose_ports(lambda found: _suits(found, count))
        self._hold(reserved)
        free = iter(reserved.ports)
        layout = Layout(
            recipe=recipe,
            block=reserved.block,
            ports={name: next(free) for name in PORT_NAMES},
            kubelet_network=reserved.network,
            ssh_ports={name: next(free) for name in names},
        )
        self._write_layout(layout)
        ca = pki.authority()
        self.control_plane.create(ca, self.nodes)

        private, public = pki.ssh_key("numaforge-lab")
        pki.write_private(self.state / "id_ed25519", private)
        known_hosts = []
        for node in self.nodes:
            host_private, host_public = pki.ssh_key(node.name)
            known_hosts.append(f"[{LOOPBACK}]:{node.ssh_port} {host_public}\n")
            node.create(image, self._identity(node, ca, public, host_private, host_public))
        (self.state / "known_hosts").write_text("".join(known_hosts))
        self._write_ssh_config()

    def _identity(
        self, node: Node, ca: pki.KeyPair, login: str, host_private: bytes, host_public: str
    ) -> dict[str, tuple[bytes, int, int]]:
        """Return the files that make a node this node: path to content, mode and owner."""
        client = pki.issue(ca, f"system:node:{node.name}", organization="system:nodes")
        current = "/var/lib/kubelet/pki/kubelet-client-current.pem"
        server = f"https://{HOST_SEEN_FROM_NODE}:{self.control_plane.ports['apiserver']}"
        kubeconfig = pki.kubeconfig(server, ca, f"system:node:{node.name}", current)
        files = {
            "etc/kubernetes/kubelet.conf": (kubeconfig, 0o600, 0),
            "etc/kubernetes/pki/ca.crt": (ca.certificate_pem, 0o644, 0),
            current.lstrip("/"): (client.certificate_pem + client.key_pem, 0o600, 0),
            "etc/ssh/ssh_host_ed25519_key": (host_private, 0o600, 0),
            "etc/ssh/ssh_host_ed25519_key.pub": (f"{host_public}\n".encode(), 0o644, 0),
        }
        for user, uid in UID_OF_USER.items():
            home = "root" if user == "root" else f"home/{user}"
            files[f"{home}/.ssh/authorized_keys"] = (f"{login}\n".encode(), 0o600, uid)
        return files

    def _write_ssh_config(self) -> None:
        (self.state / "ssh_config").write_text("".join(self._ssh_config(node) for node in self.nodes))

    def _ssh_config(self, node: Node) -> str:
        return (
            f"Host {node.name}\n"
            f"    HostName {LOOPBACK}\n"
            f"    Port {node.ssh_port}\n"
            f"    User root\n"
            f"    IdentityFile {self.state / 'id_ed25519'}\n"
            f"    IdentitiesOnly yes\n"
            f"    UserKnownHostsFile {self.state / 'known_hosts'}\n"
            f"    StrictHostKeyChecking yes\n"
            f"    LogLevel ERROR\n"
        ) + (_ONE_CONNECTION.format(state=self.state) if self._baked else "")

    def _hold(self, reserved: Reserved) -> None:
        """Have a process of the lab keep its ports reserved while the lab runs, and through a reset."""
        holds = "import signal; signal.pause()"
        try:
            self._holder.start(
                [sys.executable, "-IS", "-c", holds, str(self.state)], standard_input=reserved.holder.fileno()
            )
        finally:
            reserved.release()

    @property
    def _holder(self) -> Daemon:
        return Daemon(_HOLDER, self.state)

    def _boot_anew(self, image: Image, recipe: str, count: int) -> None:
        """Make new nodes and boot them; where a program finds its port taken, again on other ports."""

        def boot() -> None:
            self._create(image, recipe, count)
            self._boot()

        self._stop_everything()
        started_on_free_ports(boot, self._stop_everything)

    def _boot(self) -> None:
        begun = time.monotonic()
        names = ", ".join(node.name for node in self.nodes)
        with step(f"power on {names}; start the control plane"):
            for node in self.nodes:
                node.power_on()
            self.control_plane.start()
        with step("wait until every node is Ready"):
            self._await("Ready", READY_WITHIN_S * len(self.nodes), self._every_node_is_ready)
        say(f"Ready {time.monotonic() - begun:.1f} s after power-on", colour=32)
        with step("wait until every GPU is allocatable"):
            self._await(f"offering {GPU_RESOURCE}", READY_WITHIN_S, self._every_gpu_is_allocatable)
        with step("save this state"):
            self._save()

    def _save(self) -> None:
        """Save nodes and store together."""
        self._await_heartbeats(datetime.min.replace(tzinfo=UTC))
        for node in self.nodes:
            node.pause()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Node.save, self.nodes))
        self.control_plane.save()
        for node in self.nodes:
            node.resume()
        for node in self.nodes:
            node.set_clock()
        self._write_layout(Layout(**(asdict(self._layout()) | {"saved": True})))

    def _restored(self) -> bool:
        """Restore the saved state; return False when that fails and the lab must boot."""
        try:
            with step("restore the saved state"):
                self._restore()
        except LabError as refusal:
            say(f"the saved state is of no use, booting instead: {refusal}", colour=33)
            return False
        return True

    def _restore(self) -> None:
        """Start store and nodes from the saved state, and return when the nodes send heartbeats.

        Each node gets a new QEMU: one that goes on would keep the connections of the time that is undone, and
        the guest, which chooses the same ports again, could not reach the API server for a while.
        """
        since = datetime.now(UTC)
        with ThreadPoolExecutor() as pool:
            woken = pool.map(Node.wake, self.nodes)
            self.control_plane.start(restore=True)
            list(woken)
        self._await_heartbeats(since)

    def _every_node_is_ready(self) -> bool:
        found = {item["metadata"]["name"]: item for item in self.control_plane.get("/api/v1/nodes")["items"]}
        return all(node.name in found and _is_ready(found[node.name]) for node in self.nodes)

    def _every_gpu_is_allocatable(self) -> bool:
        found = {item["metadata"]["name"]: item for item in self.control_plane.get("/api/v1/nodes")["items"]}
        return all(
            found[node.name]["status"]["allocatable"].get(GPU_RESOURCE) == str(node.machine.gpus)
            for node in self.nodes
        )

    def _await_heartbeats(self, since: datetime) -> None:
        """Return when every node is Ready and its kubelet has renewed its lease after `since`."""

        def heard_from_all() -> bool:
            renewed = {
                item["metadata"]["name"]: datetime.fromisoformat(item["spec"]["renewTime"])
                for item in self.control_plane.get(LEASES)["items"]
            }
            fresh = all(node.name in renewed and renewed[node.name] > since for node in self.nodes)
            return fresh and self._every_node_is_ready()

        self._await("Ready and heard from", HEARD_WITHIN_S, heard_from_all)

    def _await(self, state: str, patience_s: float, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            heed()
            for daemon in daemons(self.state):
                daemon.require_alive()
            try:
                if holds():
                    return
            except (urllib.error.URLError, http.client.HTTPException, OSError) as refusal:
                say(f"the API server does not answer: {refusal}")
            if time.monotonic() > deadline:
                raise LabError(
                    f"the nodes are not {state} after {patience_s:.0f} s",
                    remedy=f"see {self.state / 'log'} and nodes/*/console.log beside it",
                )
            time.sleep(0.1)

    @contextmanager
    def _ended_by_a_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._stop_everything()
            raise

    def _stop_programs(self) -> None:
        """End nodes and control plane; the ports stay reserved."""
        for daemon in daemons(self.state):
            if daemon.name not in (*PROGRAMS, _HOLDER):
                daemon.stop()
        ControlPlane(self.state, {}).stop()

    def _stop_everything(self) -> None:
        """End every process of the lab; records of processes long gone are removed."""
        self._stop_programs()
        self._holder.stop(grace_s=0)
        end_living(self.state)

    def _ports_are_reserved(self, layout: Layout) -> bool:
        """Reserve the ports of a saved state, unless they are; say False where another program has them."""
        if self._holder.pid() is None:
            reserved = reserve_block(layout.block)
            if reserved is None:
                say("the ports of the saved state are reserved by another lab", colour=33)
                return False
            self._hold(reserved)
        endpoints = [(LOOPBACK, port) for port in (*layout.ports.values(), *layout.ssh_ports.values())]
        endpoints += [(node.kubelet_address, KUBELET_PORT) for node in self.nodes]
        taken = [f"{address}:{port}" for address, port in endpoints if not is_free(address, port)]
        if taken:
            say(f"the saved state needs {', '.join(taken)}, taken by another program", colour=33)
        return not taken

    def _read_layout(self) -> Layout | None:
        try:
            return Layout(**json.loads((self.state / _LAYOUT).read_text()))
        except (FileNotFoundError, json.JSONDecodeError, TypeError):
            return None

    def _layout(self) -> Layout:
        layout = self._read_layout()
        if layout is None:
            raise LabError("the lab is not running", remedy="bring it up: make lab-up")
        return layout

    def _write_layout(self, layout: Layout) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        making = self.state / f"{_LAYOUT}.making"
        making.write_text(json.dumps(asdict(layout), indent=2) + "\n")
        making.rename(self.state / _LAYOUT)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one command change the lab at a time."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o700)
        with (self.state / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another command is changing the lab; waiting for it")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def build(*, baked: bool = False) -> Image:
    """Return the image, with every binary built; Debian's files are fetched while Go compiles."""
    with ThreadPoolExecutor() as pool:
        base = pool.submit(images.build_base)
        for component in gobuild.COMPONENTS:
            gobuild.build(component)
        base.result()
    return images.build(baked=baked)


def _copy(saved: Path, place: Path) -> None:
    """Copy the files of a saved state, and last the file that marks it complete."""
    passing = ("lock", "run", "log", "etcd", "*.sock", "console.log", _LAYOUT)
    shutil.copytree(saved, place, ignore=shutil.ignore_patterns(*passing), dirs_exist_ok=True)
    shutil.copy2(saved / _LAYOUT, place)


def _recipe(image: Image, shapes: dict[str, Machine], more: Mapping[str, tuple[str, ...]]) -> str:
    binaries = [gobuild.key(component) for component in gobuild.COMPONENTS]
    sources = [
        (LAB / name).read_bytes() for name in ("acpi.py", "controlplane.py", "egress.py", "node.py", "pki.py")
    ]
    recorded = [each.name for each in fields(Layout)]
    sources.append(emulator().encode())  # another one takes no state that this one has saved
    return cache.digest(
        [image.folder.name, *binaries, repr(shapes), *recorded, *sources, *chain(*more.values())]
    )


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _suits(found: Reserved, count: int) -> bool:
    addresses = [f"{found.network}.{number}" for number in range(1, count + 1)]
    enough = len(found.ports) >= len(PORT_NAMES) + count
    return enough and all(is_free(address, KUBELET_PORT) for address in addresses)
