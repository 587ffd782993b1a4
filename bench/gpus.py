"""Count what asking NVML costs: bytes to send, NVML's calls, bytes of the answer, for 8 GPUs of the fake.

Calls are those that reach tests/fakes/nvml, counted where pynvml looks up a function. The time is the fake's.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from numaforge.machine.snapshot.capture import _probe, script
from tests.fakes.nvml.gpus import FakeGpus, gpu_text

LINKS = ("nvlinks 18", "nvlink 0-17 switch hidden", "fabric 00112233-4455-6677-8899-aabbccddeeff.7")
SLICED = tuple(line for n in range(7) for line in (f"instance 19 {n}", f"compute 0 0 0 {n}"))
MACHINES = {
    "8 x H100, MIG off": ("h100-80gb", "disabled", LINKS),
    "8 x H100, 7 instances each": ("h100-80gb", "enabled", (*LINKS, *SLICED)),
    "8 x A30": ("a30-24gb", "disabled", ()),
}
COUNTED = """
import pynvml
from numaforge.machine.snapshot import nvml_probe
calls = []
found = pynvml._nvmlGetFunctionPointer
pynvml._nvmlGetFunctionPointer = lambda name: calls.append(name) or found(name)
answers = nvml_probe.answers(pynvml)
answer([len(calls), len(json.dumps(answers, separators=(",", ":")))])
"""


def main() -> None:
    print(f"the capture script: {len(script())} bytes, of which the probe with pynvml: {len(_probe())}")
    for name, (model, mig, lines) in MACHINES.items():
        description = "".join(
            gpu_text(model, f"0000:{0x11 * (n + 1):02x}:00.0", *lines, number=n, mig=mig) for n in range(8)
        )
        with tempfile.TemporaryDirectory() as folder:
            calls, size = FakeGpus(Path(folder), description).ask(COUNTED)
        print(f"{name}: {calls} calls of NVML, {size} bytes of answers")


if __name__ == "__main__":
    main()
