"""Record the state files that kubelets write, and what each says of another's.

`python -m tests.conformance.record_state_files` needs Go, as `make test-all PART=oracle` does.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.oracle import Oracle
from tests.fuzz.kubelet_inputs import HEAD
from tests.oracle.machines import KINDS, described

FILE = Path(__file__).with_name("state_files.json")
MACHINE = "small-hugepages"
KUBELETS = ("1.36", "1.36 by pod", "1.37", "1.37 by pod")
"""Those between which formats changed; `by pod`: with the feature gate PodLevelResourceManagers."""

CONFIG = f"""{HEAD}cpuManagerPolicy: static
reservedSystemCPUs: "0,8"
topologyManagerPolicy: best-effort
topologyManagerScope: pod
memoryManagerPolicy: Static
kubeReserved: {{memory: 1Gi}}
evictionHard: {{memory.available: 100Mi}}
reservedMemory:
- {{numaNode: 0, limits: {{memory: 1124Mi}}}}
"""

EDITS: dict[str, tuple[str, str, str]] = {
    "CPUs of the fields for older kubelets": (
        "cpu",
        '"entries":{"a":{"c":"1,9"}',
        '"entries":{"a":{"c":"1"}',
    ),
    "CPUs in the data": ("cpu", '\\"a\\":{\\"c\\":\\"1,9\\"}', '\\"a\\":{\\"c\\":\\"1\\"}'),
    "the data's checksum": ("cpu", '"dataChecksum":', '"dataChecksum":1'),
    "no checksum of the data": ("cpu", '"dataChecksum":', '"other":'),
    "no data": ("cpu", '"data":', '"other":'),
    "data that is no JSON": ("cpu", '"data":"{', '"data":"'),
    "data that is no text": ("cpu", '"data":"', '"data":1,"other":"'),
    "a field for older kubelets of a wrong type": ("cpu", '"policyName":"static"', '"policyName":1'),
    "a field of the data of a wrong type": ("cpu", '\\"policyName\\":\\"static\\"', '\\"policyName\\":1'),
    "a checksum that is no number": ("cpu", '"dataChecksum":', '"dataChecksum":"1","other":'),
    "memory of the fields for older kubelets": ("memory", '"size":2147483648', '"size":2147483649'),
    "memory in the data": ("memory", '\\"size\\":2147483648', '\\"size\\":2147483649'),
    "no memory data": ("memory", '"data":', '"other":'),
    "memory data that is no JSON": ("memory", '"data":"{', '"data":"'),
    "a memory field for older kubelets of a wrong type": (
        "memory",
        '"policyName":"Static"',
        '"policyName":1',
    ),
}
"""What is changed in the files of 1.37: which file, the text, and the text in its place, each time."""


def config_of(kubelet: str) -> str:
    """Return the configuration of one of KUBELETS."""
    return CONFIG + ("featureGates: {PodLevelResourceManagers: true}\n" if kubelet.endswith("by pod") else "")


def edited(files: dict[str, str], edit: tuple[str, str, str]) -> dict[str, str]:
    """Return state files with one change. Raises ValueError where there is nothing to change."""
    manager, old, new = edit
    name = f"{manager}_manager_state"
    if old not in files[name]:
        raise ValueError(f"{old} is not in {files[name]}")
    return {**files, name: files[name].replace(old, new)}


def main() -> None:
    """Write the file."""
    oracles = {minor: Oracle(minor) for minor in dict.fromkeys(each.split()[0] for each in KUBELETS)}
    written = {
        kubelet: oracles[kubelet.split()[0]].ask([_question(kubelet, operations=[*_pods(kubelet)])])[0]
        for kubelet in KUBELETS
    }
    files = {kubelet: answer["state"] for kubelet, answer in written.items()}
    restarts = [
        {"wrote": writer, "starts": reader, "error": _error(oracles, reader, state)}
        for writer, state in files.items()
        for reader in KUBELETS
    ]
    edits = {name: _error(oracles, "1.37", edited(files["1.37"], edit)) for name, edit in EDITS.items()}
    document = {
        "files": files,
        "admitted": {kubelet: answer["admissions"] for kubelet, answer in written.items()},
        "restarts": restarts,
        "edits": edits,
    }
    FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _error(oracles: dict[str, Oracle], reader: str, state: dict[str, str]) -> str:
    oracle = oracles[reader.split()[0]]
    error: str = oracle.ask([_question(reader, state=state)])[0]["error"]
    return error.replace(str(oracle.folder), "")


def _question(kubelet: str, **asked: Any) -> dict[str, Any]:
    return {
        "config": config_of(kubelet),
        "machine": described(KINDS[MACHINE]),
        "written": True,
        **asked,
    }


def _pods(kubelet: str) -> Iterator[dict[str, Any]]:
    for name, cpus, memory in (("a", 2, "1Gi"), ("b", 3, "2Gi")):
        sizes = {"cpu": str(cpus), "memory": memory, "hugepages-2Mi": "64Mi"}
        yield {"name": name, "spec": {"containers": [_container("c", sizes)]}}
    if kubelet.endswith("by pod"):
        whole = {"cpu": "4", "memory": "3Gi"}
        one = {"cpu": "1", "memory": "1Gi"}
        spec = {"containers": [_container("c", one), {"name": "d"}], "resources": _both(whole)}
        yield {"name": "p", "spec": spec}


def _container(name: str, sizes: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": _both(sizes)}


def _both(sizes: dict[str, str]) -> dict[str, Any]:
    return {"requests": sizes, "limits": sizes}


if __name__ == "__main__":
    main()
