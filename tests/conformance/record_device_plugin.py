"""Record what NVIDIA's device plugin and GPU feature discovery make of machines and configurations.

`python -m tests.conformance.record_device_plugin CHECKOUT`, where CHECKOUT is a clone of
github.com/NVIDIA/k8s-device-plugin. Needs Go, a C compiler, curl, and unshare with user namespaces: both
programs are built and run as they are, on a libnvidia-ml without a GPU.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.checkouts import NVML_PROBE, text_of, version_of
from tests.fakes.nvml.gpus import FakeGpus, gpu_text

FILE = Path(__file__).with_name("device_plugin.json")
COMMANDS = ("nvidia-device-plugin", "gpu-feature-discovery")
CLUSTER = "00112233-4455-6677-8899-aabbccddeeff"
_ADDRESSES = ("0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0")
_COMPUTE = {19: 0, 20: 0, 15: 0, 14: 1, 9: 2, 5: 3, 0: 4}  # the whole compute instance of a GPU instance
_SECONDS = 30
_LABELS = ("nvidia.com/mig.strategy", "nvidia.com/gpu.clique")

Cut = Sequence[tuple[int, int]]  # GPU instances by profile and start

SEVEN: Cut = [(19, start) for start in range(7)]


def _gpu(number: int, *lines: str, model: str = "h100-80gb", cut: Cut | None = None) -> str:
    if cut is None:
        return gpu_text(model, _ADDRESSES[number], *lines, number=number)
    instances = [
        line
        for index, (profile, start) in enumerate(cut)
        for line in (f"instance {profile} {start}", f"compute 0 {_COMPUTE[profile]} 0 {index}")
    ]
    return gpu_text(model, _ADDRESSES[number], *lines, *instances, number=number, mig="enabled")


MACHINES = {
    "two whole": _gpu(0) + _gpu(1),
    "two models": _gpu(0) + _gpu(1, model="a100-80gb"),
    "one without MIG": _gpu(0) + "gpu 0000:43:00.0\n  device 0x26b910de\n  name NVIDIA L40S\n"
    "  uuid GPU-11111111-0000-4000-8000-000000000000\n  memory_bytes 48305799168\n"
    "  architecture 8\n  compute_capability 8.9\n",
    "one lost": _gpu(0) + _gpu(1, "lost yes") + _gpu(2),
    "one off the bus": _gpu(0) + _gpu(1, "lost off-the-bus") + _gpu(2),
    "all cut alike": _gpu(0, cut=SEVEN) + _gpu(1, cut=SEVEN),
    "two models cut alike": _gpu(0, cut=SEVEN) + _gpu(1, model="a100-80gb", cut=SEVEN),
    "two kinds on a GPU": _gpu(0, cut=[(9, 4), (19, 0)]),
    "two kinds on two GPUs": _gpu(0, cut=SEVEN) + _gpu(1, cut=[(9, 0), (9, 4)]),
    "one cut": _gpu(0, cut=SEVEN) + _gpu(1),
    "one in MIG mode without instances": _gpu(0, cut=SEVEN) + _gpu(1, cut=[]),
    "a GPU instance without compute instances": gpu_text(
        "h100-80gb", _ADDRESSES[0], "instance 9 4", mig="enabled"
    ),
    "media engines": _gpu(0, cut=[(20, 6), (19, 0)]),
    "smaller compute instances": gpu_text(
        "h100-80gb", _ADDRESSES[0], "instance 9 4", "compute 0 0 0 0", "compute 1 1 1 1", mig="enabled"
    ),
    "one clique": _gpu(0, f"fabric {CLUSTER}.7") + _gpu(1, f"fabric {CLUSTER}.7"),
    "two cliques": _gpu(0, f"fabric {CLUSTER}.7") + _gpu(1, f"fabric {CLUSTER}.8"),
}

_SHARED = "resources: [{name: nvidia.com/gpu, replicas: 3}]"
CONFIGS = {
    **{strategy: f"flags: {{migStrategy: {strategy}}}" for strategy in ("none", "single", "mixed")},
    "shared": f"sharing: {{timeSlicing: {{{_SHARED}}}}}",
    "shared and renamed": f"sharing: {{timeSlicing: {{renameByDefault: true, {_SHARED}}}}}",
    "shared and single": f"flags: {{migStrategy: single}}\nsharing: {{timeSlicing: {{{_SHARED}}}}}",
    "MIG devices shared": "flags: {migStrategy: mixed}\n"
    "sharing: {timeSlicing: {resources: [{name: mig-1g.10gb, replicas: 2}]}}",
    "MPS and mixed": f"flags: {{migStrategy: mixed, mpsRoot: /m}}\nsharing: {{mps: {{{_SHARED}}}}}",
    "MPS and single": f"flags: {{migStrategy: single, mpsRoot: /m}}\nsharing: {{mps: {{{_SHARED}}}}}",
    "MPS without a root": f"sharing: {{mps: {{{_SHARED}}}}}",
    "a channel": "imex: {channelIDs: [0], required: true}",
}
WITHOUT_A_DAEMON = "error checking MPS daemon health"
"""Where MPS is accepted, the plugin waits for a daemon that is not here."""

_PRETENDED_MINORS = """\
mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia-caps
for gpu in 0 1 2 3; do
    for instance in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do
        echo "gpu$gpu/gi$instance/access 1"
        for part in 0 1 2 3 4 5 6; do echo "gpu$gpu/gi$instance/ci$part/access 1"; done
    done
done >/proc/driver/nvidia-caps/mig-minors
"""
"""Of a machine whose driver is not there."""

_SCRIPT = """\
mount -t tmpfs none /var/lib && mkdir -p /var/lib/kubelet/device-plugins && cd /var/lib/kubelet/device-plugins
: >"$FOLDER/log"
"$PROGRAMS/nvidia-device-plugin" --kubelet-socket= --config-file="$FOLDER/config.yaml" 2>"$FOLDER/log" &
plugin=$!
tries=0 same=0 before=0
while kill -0 $plugin 2>/dev/null && [ $tries -lt 400 ] && [ $same -lt 10 ]; do
    grep -qsE 'No devices found|Failed to start' "$FOLDER/log" && break
    served=$(grep -cs 'Registered device plugin' "$FOLDER/log")
    if [ "$served" = "$before" ] && [ "$served" != 0 ]; then same=$((same + 1)); else same=0; fi
    before=$served
    tries=$((tries + 1))
    sleep 0.05
done
for socket in *.sock; do
    [ -S "$socket" ] || continue
    curl -sS --max-time 1 --http2-prior-knowledge -H 'content-type: application/grpc' -H 'te: trailers' \\
        --data-binary @"$FOLDER/empty" --unix-socket "$socket" -o "$FOLDER/$socket.devices" \\
        http://localhost/v1beta1.DevicePlugin/ListAndWatch 2>/dev/null
done
kill $plugin 2>/dev/null
wait $plugin
exit 0
"""


def main(checkout: Path) -> None:
    """Build the programs of a checkout, and write the file."""
    with tempfile.TemporaryDirectory() as made:
        programs = Path(made)
        packages = [f"./cmd/{command}" for command in COMMANDS]
        subprocess.run(
            ["go", "build", "-mod=vendor", "-o", made, *packages], cwd=checkout, check=True, timeout=1800
        )
        recorded = [_machine(programs, name, text) for name, text in MACHINES.items()]
    version = version_of(checkout, "k8s-device-plugin")
    record = {"version": version, "configurations": CONFIGS, "machines": recorded}
    FILE.write_text(text_of(record, "configurations", "machines", "answers"), encoding="utf-8")


def _machine(programs: Path, name: str, description: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        fake = FakeGpus(folder, description)
        answers = [
            _compared(answers_to(key, folder, programs, fake.environment, _PRETENDED_MINORS))
            for key in CONFIGS
        ]
        return {
            "machine": name,
            "gpus": re.findall(r"^gpu (\S+)\n  device 0x(\w{4})", description, re.MULTILINE),
            "nvml": fake.ask(NVML_PROBE),
            "answers": answers,
        }


def _compared(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with the labels that are compared, of all that feature discovery writes."""
    labels = answer["labels"]
    return {**answer, "labels": labels and {name: labels[name] for name in _LABELS if name in labels}}


def answers_to(
    configuration: str, folder: Path, programs: Path, machine: Mapping[str, str], before: str = ""
) -> dict[str, Any]:
    """Return what both programs make of one of CONFIGS.

    `machine` is the environment that shows them the GPUs, `before` a script that is run where the plugin is.
    """
    environment = {
        **os.environ,
        **machine,
        "PROGRAMS": str(programs),
        "FOLDER": str(folder),
        "DP_DISABLE_HEALTHCHECKS": "all",
        "USE_NODE_FEATURE_API": "false",
    }
    plugin = _plugin(environment, folder, before, CONFIGS[configuration])
    return {"configuration": configuration, **plugin, **_labels(environment, folder)}


def _plugin(environment: Mapping[str, str], folder: Path, before: str, config: str) -> dict[str, Any]:
    """Return the number of devices of each resource, or the line with which the plugin ends."""
    (folder / "config.yaml").write_text(f"version: v1\n{config}\n", encoding="utf-8")
    (folder / "empty").write_bytes(bytes(5))  # an empty message of gRPC
    command = ["unshare", "-rm", "sh", "-c", before + _SCRIPT]
    subprocess.run(command, env=environment, check=True, timeout=_SECONDS)
    log = (folder / "log").read_text(encoding="utf-8")
    found = {}
    for file in sorted(folder.glob("*.devices")):
        found[f"nvidia.com/{file.name.removeprefix('nvidia-').removesuffix('.sock.devices')}"] = sum(
            1 for field, _ in _fields(file.read_bytes()[5:]) if field == 1
        )
        file.unlink()
    if ended := re.search(r"^E.*\] (error starting plugins: .*)$", log, re.MULTILINE):
        return {"error": ended[1]}
    if WITHOUT_A_DAEMON in log:
        return {"error": WITHOUT_A_DAEMON}
    if not found and "No devices found" not in log:
        raise RuntimeError(f"the plugin neither serves nor ends:\n{log}")
    return {"devices": found}


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message of protobuf that has only such as have a length."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        length, at = _number(message, at)
        yield tag >> 3, message[at : at + length]
        at += length


def _number(message: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _labels(environment: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Return the labels that feature discovery writes; none where it ends with an error."""
    file = folder / "labels"
    file.unlink(missing_ok=True)
    subprocess.run(
        [
            f"{environment['PROGRAMS']}/gpu-feature-discovery",
            "--oneshot",
            "--no-timestamp",
            f"--output-file={file}",
            f"--config-file={folder / 'config.yaml'}",
        ],
        env=environment,
        capture_output=True,
        check=False,
        timeout=_SECONDS,
    )
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    labels = dict(line.split("=", 1) for line in lines)
    return {"labels": labels or None}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
