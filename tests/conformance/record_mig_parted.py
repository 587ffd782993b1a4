"""Record what NVIDIA's mig-parted makes of its own files, and of ours, on each GPU that they name.

`python -m tests.conformance.record_mig_parted CHECKOUT`, where CHECKOUT is a clone of
github.com/NVIDIA/mig-parted. Needs Go, a C compiler, and unshare with user namespaces: the program is built
and run as it is, on a libnvidia-ml without a GPU. Takes half an hour.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.checkouts import NVML_PROBE, text_of, version_of
from tests.fakes.nvml.gpus import MODELS, FakeGpus, gpu_text
from tests.fixtures.trees import write

FILE = Path(__file__).with_name("mig_parted.json")
COMMAND = "nvidia-mig-parted"
ADDRESSES = ("0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0")
_SUBSYSTEM = "16c110de"
_SECONDS = 300
APPLIED = "applied"
NOT_ASSERTED = "not as asserted: "
"""It reports success, and then asserts otherwise; with the number of GPU instances on each GPU.

Of a config with a name that no GPU has it creates nothing, and that is no error.
"""

ALIKE = {  # PCI ids of GPUs that differ in nothing else, by the model that stands for them
    "a100-40gb": ("20b1", "20f1", "20f6"),
    "a100-80gb": ("20b5", "20f3", "20f5"),
    "h100-80gb": ("2331", "2322", "2324"),
    "h100-94gb": ("233a",),
    "h100-96gb": ("233d", "2329"),
    "h200-141gb": ("233b",),
}
_WITHOUT_MIG = {"l40s": ("0x26b910de", "NVIDIA L40S"), "1fb0": ("0x1fb010de", "NVIDIA T1000")}


@dataclass(frozen=True)
class Case:
    """An entry list in YAML for machines of ours, each a list of models."""

    entries: str
    machines: tuple[tuple[str, ...], ...]


def _on(models: str, entries: str) -> Case:
    return Case(entries, tuple(tuple(one.split("+")) for one in models.split()))


def _all(models: str, counts: str) -> Case:
    return _on(models, f"[{{devices: all, mig-enabled: true, mig-devices: {{{counts}}}}}]")


_TWO = "h100-80gb+h100-80gb"
_ONE_G = "mig-enabled: true, mig-devices: {1g.10gb: 7}"

CASES = {
    "the memory of another model": _all("h100-80gb", "1g.5gb: 7"),
    "a gigabyte more than the GPU's name": _all("h100-94gb", "3g.48gb: 2"),
    "the GPU's own name": _all("h100-94gb", "3g.47gb: 2"),
    "a gigabyte less than the GPU's name": _all("gb200-186gb b200-180gb", "1g.22gb: 7"),
    "one name of two that is not the GPU's": _all("h100-94gb", "3g.48gb: 1, 1g.12gb: 2"),
    "names of GPUs of two models, without a filter": _all("h100-80gb+h100-94gb", "3g.40gb: 2"),
    "a name that both GPUs have": _all("h100-80gb+a100-80gb", "3g.40gb: 1, 4g.40gb: 1"),
    "a filter for each of two models": _on(
        "h100-80gb+h100-94gb",
        '[{device-filter: "0x233010DE", devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}, '
        '{device-filter: "0x232110DE", devices: all, mig-enabled: true, mig-devices: {3g.47gb: 2}}]',
    ),
    "media engines once": _all("a100-40gb a30-24gb", "1g.5gb+me: 1, 1g.5gb: 3"),
    "media engines of A30": _all("a30-24gb", "1g.6gb+me: 1, 1g.6gb: 3"),
    "media engines of A30, both kinds": _all("a30-24gb", "1g.6gb+me: 1, 2g.12gb+me: 1"),
    "media engines twice": _all("h100-80gb", "1g.10gb+me: 2"),
    "media engines and the whole": _all("h100-80gb", "1g.10gb+me: 1, 7g.80gb: 1"),
    "media engines and six": _all("h100-80gb", "1g.10gb+me: 1, 1g.10gb: 6"),
    "all media engines and others": _all("rtx-pro-6000-96gb", "1g.24gb+me.all: 1, 1g.24gb: 3"),
    "all media engines and those without": _all("rtx-pro-6000-96gb", "1g.24gb+me.all: 1, 1g.24gb-me: 3"),
    "all media engines of two slices": _all("rtx-pro-6000-96gb", "2g.48gb+me.all: 1, 2g.48gb-me: 1"),
    "graphics and no media": _all("rtx-pro-6000-96gb", "1g.24gb+gfx: 2, 1g.24gb-me: 2"),
    "graphics of two slices": _all("rtx-pro-6000-96gb", "2g.48gb+gfx: 1, 2g.48gb: 1"),
    "graphics of all slices": _all("rtx-pro-6000-96gb", "4g.96gb+gfx: 1"),
    "graphics on Hopper": _all("h100-80gb", "1g.10gb+gfx: 1"),
    "graphics and media in one name": _all("rtx-pro-6000-96gb", '"1g.24gb+gfx,me": 1'),
    "compute instances of one slice": _all("h100-80gb", "1c.3g.40gb: 3, 1g.10gb: 1"),
    "compute instances of one and of two": _all("h100-80gb", "1c.3g.40gb: 1, 2c.3g.40gb: 1"),
    "compute instances of the whole": _all("h100-80gb", "3c.7g.80gb: 2, 1c.7g.80gb: 1"),
    "a compute instance above its GPU instance": _all("h100-80gb", "4c.3g.40gb: 1"),
    "too many": _all("h100-80gb", "1g.10gb: 8"),
    "too much memory": _all("h100-80gb", "3g.40gb: 2, 1g.10gb: 1"),
    "a count of 0 beside another": _all("h100-80gb", "1g.10gb: 0, 3g.40gb: 1"),
    "counts of 0 alone": _all("h100-80gb", "1g.10gb: 0"),
    "a negative count": _all("h100-80gb", "1g.10gb: -1"),
    "a count as text": _all("h100-80gb", '1g.10gb: "1"'),
    "no name of a profile": _all("h100-80gb", "big: 1"),
    "a name without memory": _all("h100-80gb", "1g: 7"),
    "a GPU without MIG": _on("l40s h100-80gb+l40s", f"[{{devices: all, {_ONE_G}}}]"),
    "a GPU without MIG, by its index": _on("h100-80gb+l40s", f"[{{devices: [0, 1], {_ONE_G}}}]"),
    "a GPU without MIG that shall have none": _on("l40s", "[{devices: all, mig-enabled: false}]"),
    "one GPU of two": _on(_TWO, f"[{{devices: [0], {_ONE_G}}}]"),
    "an index that is not there": _on(_TWO, f"[{{devices: [0, 1, 5], {_ONE_G}}}]"),
    "an index twice": _on(_TWO, f"[{{devices: [0, 1, 1], {_ONE_G}}}]"),
    "a negative index": _on(_TWO, f"[{{devices: [-1, 0, 1], {_ONE_G}}}]"),
    "no index": _on(_TWO, f"[{{devices: [], {_ONE_G}}}]"),
    "an index as a number": _on(_TWO, f"[{{devices: 0, {_ONE_G}}}]"),
    "an index as text": _on(_TWO, f'[{{devices: "0", {_ONE_G}}}]'),
    "a GPU in two entries that agree": _on(_TWO, f"[{{devices: all, {_ONE_G}}}, {{devices: [0], {_ONE_G}}}]"),
    "a GPU in two entries that differ": _on(
        _TWO, f"[{{devices: all, {_ONE_G}}}, {{devices: [0], mig-enabled: false}}]"
    ),
    "a filter in lower case": _on("h100-80gb", f'[{{device-filter: "0x233010de", devices: all, {_ONE_G}}}]'),
    "a filter with the subsystem": _on(
        "h100-80gb", f'[{{device-filter: "0x233010DE:0x16C110DE", devices: all, {_ONE_G}}}]'
    ),
    "a filter with another subsystem": _on(
        "h100-80gb", f'[{{device-filter: "0x233010DE:0x16C010DE", devices: all, {_ONE_G}}}]'
    ),
    "a filter without quotes": _on("h100-80gb", f"[{{device-filter: 0x233010DE, devices: all, {_ONE_G}}}]"),
    "a filter in decimal": _on("h100-80gb", f'[{{device-filter: "590352606", devices: all, {_ONE_G}}}]'),
    "a filter without the vendor": _on("h100-80gb", f'[{{device-filter: "0x2330", devices: all, {_ONE_G}}}]'),
    "a filter that is a word": _on("h100-80gb", f"[{{device-filter: H100, devices: all, {_ONE_G}}}]"),
    "no filter in the list": _on("h100-80gb", f"[{{device-filter: [], devices: all, {_ONE_G}}}]"),
    "an empty filter": _on("h100-80gb", f'[{{device-filter: "", devices: all, {_ONE_G}}}]'),
    "the mode alone": _on("h100-80gb", "[{devices: all, mig-enabled: true, mig-devices: {}}]"),
    "off": _on("h100-80gb a100-80gb", "[{devices: all, mig-enabled: false}]"),
    "off, with instances": _on(
        "h100-80gb", "[{devices: all, mig-enabled: false, mig-devices: {1g.10gb: 7}}]"
    ),
    "on, without mig-devices": _on("h100-80gb", "[{devices: all, mig-enabled: true}]"),
    "without devices": _on("h100-80gb", f"[{{{_ONE_G}}}]"),
    "without mig-enabled": _on("h100-80gb", "[{devices: all, mig-devices: {1g.10gb: 7}}]"),
    "mig-enabled as text": _on("h100-80gb", '[{devices: all, mig-enabled: "true", mig-devices: {}}]'),
    "an unknown key": _on("h100-80gb", f"[{{devices: all, comment: x, {_ONE_G}}}]"),
    "no entry": _on("h100-80gb", "[]"),
}
TEXTS = {
    "without a version": "mig-configs: {a: [{devices: all, mig-enabled: false}]}",
    "version 2": "version: v2\nmig-configs: {a: [{devices: all, mig-enabled: false}]}",
    "an unknown key at the top": "version: v1\nx: 1\nmig-configs: {a: [{devices: all, mig-enabled: false}]}",
    "no config": "version: v1\nmig-configs: {}",
    "a key twice": "version: v1\nmig-configs: {a: [{devices: all, devices: all, mig-enabled: false}]}",
}
"""Whole files that no machine is needed for."""

_SCRIPT = """\
mount --bind "$FOLDER/sys/bus/pci/devices" /sys/bus/pci/devices
mount -t tmpfs none /proc && echo 'nvidia 1 0 - Live 0x0' >/proc/modules
cd "$FOLDER/asked"
for file in *.yaml; do
    rm -f "$FAKE_NVML_STATE"
    name=${file%.yaml}
    "$PROGRAM" apply -f "$file" >"$name.apply" 2>&1 || continue
    "$PROGRAM" assert -f "$file" >/dev/null 2>&1 \\
        || cp "$FAKE_NVML_STATE" "$name.state" 2>/dev/null || : >"$name.state"
done
"""


def main(checkout: Path) -> None:
    """Build the program of a checkout, and write the file."""
    files = {str(path.relative_to(checkout)): text for path, text in _files(checkout)}
    with tempfile.TemporaryDirectory() as made:
        program = Path(made) / COMMAND
        command = ["go", "build", "-mod=vendor", "-o", program, f"./cmd/{COMMAND}"]
        subprocess.run(command, cwd=checkout, check=True, timeout=1800)
        record: dict[str, Any] = {
            "version": version_of(checkout, "mig-parted"),
            "files": files,
            "nvml": {},
            "machines": [_of_model(program, *one, files) for one in _models(files)],
            "cases": [
                _case(program, name, case.entries, machine)
                for name, case in CASES.items()
                for machine in case.machines
            ],
            "texts": {name: _parsed(program, text) for name, text in TEXTS.items()},
        }
    record["nvml"] = {each["machine"]: each.pop("nvml") for each in (*record["machines"], *record["cases"])}
    spread = ("files", "nvml", "machines", "answers", "cases", "texts")
    FILE.write_text(text_of(record, *spread), encoding="utf-8")


def file_of(entries: str) -> str:
    """Return the file of a case, whose config is `asked`."""
    return f"version: v1\nmig-configs: {{asked: {entries}}}\n"


def _files(checkout: Path) -> Iterator[tuple[Path, str]]:
    """Yield its configuration files: those of its folders, and what ConfigMaps among its manifests hold."""
    for path in sorted([*checkout.glob("deployments/**/*.yaml"), *checkout.glob("examples/*.yaml")]):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if "mig-configs" in document:
                yield path, path.read_text(encoding="utf-8")
            elif "mig-configs" in (document.get("data") or {}).get("config.yaml", ""):
                yield path, document["data"]["config.yaml"]


def _models(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each GPU that a filter names, as a model and a PCI id; one without its like here is an error."""
    ids = {MODELS[model][0][2:6]: model for model in MODELS}
    ids |= {other: model for model, others in ALIKE.items() for other in others}
    ids |= {text[2:6]: model for model, (text, _) in _WITHOUT_MIG.items()}
    named = {
        found.lower()
        for text in files.values()
        for found in re.findall(r"0x(\w{4})10DE", text, re.IGNORECASE)
    }
    if unknown := named - ids.keys():
        raise SystemExit(f"no GPU of tests/fakes/nvml is a {', '.join(sorted(unknown))}")
    yield from sorted((ids[one], one) for one in named)


def _of_model(program: Path, model: str, device: str, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the answers for a machine of one GPU; of one that is like another, where a filter names GPUs."""
    configs = [
        (file, name, json.dumps(entries))
        for file, text in files.items()
        for name, entries in yaml.safe_load(text)["mig-configs"].items()
        if device not in ALIKE.get(model, ()) or any("device-filter" in entry for entry in entries)
    ]
    asked = list(dict.fromkeys(entries for _, _, entries in configs))
    nvml, verdicts = _verdicts(program, [(model, device)], asked)
    told = dict(zip(asked, verdicts, strict=True))
    answers: dict[str, dict[str, str]] = {}
    for file, name, entries in configs:
        answers.setdefault(file, {})[name] = told[entries]
    return {"machine": f"{model} {device}", "gpus": [device], "nvml": nvml, "answers": answers}


def _case(program: Path, name: str, entries: str, machine: Sequence[str]) -> dict[str, Any]:
    gpus = [(model, _facts(model)[0][2:6]) for model in machine]
    nvml, [verdict] = _verdicts(program, gpus, [entries])
    return {
        "case": name,
        "machine": " and ".join(machine),
        "gpus": [device for _, device in gpus],
        "nvml": nvml,
        "answer": verdict,
    }


def _parsed(program: Path, text: str) -> str:
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "config.yaml"
        file.write_text(text, encoding="utf-8")
        command = [program, "assert", "--valid-config", "-f", file, "-c", "a"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        return _ended(ended.stdout + ended.stderr)


def _verdicts(
    program: Path, gpus: Sequence[tuple[str, str]], configs: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return NVML's answers on a machine of these GPUs, and how each list of entries ends on it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        fake = FakeGpus(folder, "".join(_gpu(folder, number, *gpu) for number, gpu in enumerate(gpus)))
        for number, entries in enumerate(configs):
            write(folder, f"/asked/{number}.yaml", file_of(entries))
        environment = os.environ | fake.environment | {"PROGRAM": str(program), "FOLDER": str(folder)}
        nvml = fake.ask(NVML_PROBE)
        subprocess.run(["unshare", "-rm", "sh", "-ec", _SCRIPT], env=environment, check=True)
        return nvml, [_verdict(folder / f"asked/{number}", len(gpus)) for number in range(len(configs))]


def _verdict(asked: Path, count: int) -> str:
    applied = _ended(asked.with_suffix(".apply").read_text(encoding="utf-8"))
    state = asked.with_suffix(".state")
    if applied != APPLIED or not state.exists():
        return applied
    changed = re.split(r"^gpu ", state.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    gpus = changed or [""] * count
    return NOT_ASSERTED + ", ".join(str(gpu.count("\n  instance ")) for gpu in gpus)


def _ended(output: str) -> str:
    """Return the error with which the program ends, without what is the same in all of them."""
    error = re.search(r'level=fatal msg="(.*)"$', output, re.MULTILINE)
    if error is None:
        return APPLIED
    text = re.sub(r"^Error applying MIG configuration with hooks: ", "", json.loads(f'"{error[1]}"'))
    return re.sub(r"asked/\d+\.yaml", "config.yaml", text)


def _facts(model: str) -> tuple[str, str]:
    return MODELS[model][:2] if model in MODELS else _WITHOUT_MIG[model]


def _gpu(folder: Path, number: int, model: str, device: str) -> str:
    """Describe a GPU for NVML, and write what sysfs has of it."""
    address = ADDRESSES[number]
    for name, value in {
        "vendor": "0x10de",
        "device": f"0x{device}",
        "class": "0x030200",
        "subsystem_vendor": f"0x{_SUBSYSTEM[4:]}",
        "subsystem_device": f"0x{_SUBSYSTEM[:4]}",
        "numa_node": "0",
        "resource": "0x0 0x0 0x0",
    }.items():
        write(folder, f"/sys/bus/pci/devices/{address}/{name}", f"{value}\n")
    own = (f"device 0x{device}10de", f"subsystem 0x{_SUBSYSTEM}")
    if model in MODELS:
        return gpu_text(model, address, *own, number=number, mig="enabled")
    return (
        f"gpu {address}\n  name {_facts(model)[1]}\n  uuid GPU-{number}\n  memory_bytes 48305799168\n  "
        + ("\n  ".join([*own, "architecture 8", "compute_capability 8.9"]) + "\n")
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
