"""What a sandbox without AMD GPUs lacks: amdgpu's files in sysfs, KFD's nodes, and the driver behind both.

Two MI300X of one hive are at 0000:05:00.0 and 0000:27:00.0; the rows of KFD's nodes are those of a real
MI300X in CPX (testdata/topo-mi300-cpx of ROCm/k8s-device-plugin). `tee` into a file of the driver and
`modprobe` do what Linux does there (amdgpu_gmc.c, current_memory_partition_store; aqua_vanjaram.c,
__aqua_vanjaram_is_valid_mode and __aqua_vanjaram_get_auto_mode):

- a compute mode is refused with EBUSY while any process has /dev/kfd open, with EINVAL where it does not go
  with the memory mode; it takes a moment, and KFD's nodes are others then,
- a memory mode is noted for the hive, and carried out when the driver is unloaded; a request for the mode
  that is there is passed over, so none can be taken back,
- the driver is not unloaded while a device file of its is open; loaded again it chooses a compute mode by
  itself.

/run/amdgpu/log has what was asked. A line "CALL NUMBER KIND" in /run/amdgpu/faults has that call fail: CALL
is the name of a file, "unload" or "load", NUMBER counts from 1 or is "every", KIND is EBUSY, EINVAL, EIO,
hangs, killed-before or killed-after (the worker is), power-before or power-after (the power is cut), or
lost (the second GPU does not come back). While there is /run/amdgpu/forgets a boot brings the memory mode
NPS1; `power_on` is what a boot does.

A process holds the GPUs while it has a file below /run/amd/dev open.
"""

from collections.abc import Sequence

from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import notifying

FIRST, SECOND = "0000:05:00.0", "0000:27:00.0"
ADDRESSES = (FIRST, SECOND)
DRIVER = "/sys/bus/pci/drivers/amdgpu"
DEVICES = "/run/amd/dev"
LOG = "/run/amdgpu/log"
FAKE = "/usr/local/lib/fake-amdgpu"
GPUAGENT = "gpuagent.service"

_PROGRAM = r'''#!/usr/bin/env -S python3 -IS
import json, os, pathlib, shutil, signal, sys, time

RUN = pathlib.Path("/run/amdgpu")
DRIVER = pathlib.Path("/sys/bus/pci/drivers/amdgpu")
NODES = pathlib.Path("/sys/devices/virtual/kfd/kfd/topology/nodes")
PLATFORM = pathlib.Path("/sys/devices/platform")
MODULE = pathlib.Path("/sys/module/amdgpu")
DEVICES = pathlib.Path("/run/amd/dev")
GPUS = ("0000:05:00.0", "0000:27:00.0")
DIES, STACKS, GIB = 8, 8, 192
PAIRS = {"SPX": ("NPS1",), "DPX": ("NPS1", "NPS2"), "QPX": ("NPS1", "NPS4"), "CPX": ("NPS1", "NPS4")}
PARTS = {"SPX": 1, "DPX": 2, "QPX": 4, "CPX": 8}
AUTO = {"NPS1": "SPX", "NPS2": "DPX", "NPS4": "QPX"}
CUT_POWER = """
if [ -e /run/kubelet.pid ]; then kill -KILL "$(cat /run/kubelet.pid)"; rm -f /run/kubelet.pid; fi
main=$(cat /run/units/*)
rm -f /run/units/*
kill -KILL "$(ps -o ppid= -p "$main")"
: > /run/off
kill -KILL "-$main"
"""
SAID = {"EBUSY": "Device or resource busy", "EINVAL": "Invalid argument", "EIO": "Input/output error"}


def state():
    return json.loads((RUN / "state").read_text())


def save(now):
    (RUN / "new").write_text(json.dumps(now))
    (RUN / "new").rename(RUN / "state")


def fault(call):
    counted = RUN / f"count-{call}"
    number = int(counted.read_text()) + 1 if counted.exists() else 1
    counted.write_text(str(number))
    for line in (RUN / "faults").read_text().splitlines() if (RUN / "faults").exists() else ():
        name, at, kind = line.split()
        if name == call and at in (str(number), "every"):
            return kind
    return ""


def die(kind):
    if kind.startswith("power"):
        os.execv("/bin/sh", ["sh", "-c", CUT_POWER])
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit(137)


def held(names):
    for process in pathlib.Path("/proc").glob("[0-9]*/fd"):
        try:
            links = [os.readlink(each) for each in process.iterdir()]
        except OSError:
            continue
        ours = [link.rpartition("/")[2] for link in links if link.startswith(f"{DEVICES}/")]
        if any(not names or name in names for name in ours):
            return True
    return False


def log(line):
    with (RUN / "log").open("a") as file:
        file.write(line + "\n")


def show_modes(address, now):
    folder = DRIVER / address
    (folder / "current_compute_partition").write_text(now["compute"][address] + "\n")
    (folder / "current_memory_partition").write_text(now["memory"] + "\n")
    fits = [mode for mode in PAIRS if now["memory"] in PAIRS[mode]]
    (folder / "available_compute_partition").write_text(", ".join(fits) + "\n")


def show_nodes(now):
    shutil.rmtree(NODES, ignore_errors=True)
    for number in range(2):
        rows = "cpu_cores_count 4\nsimd_count 0\nlocation_id 0\ndomain 0\n"
        write(NODES / str(number) / "properties", rows)
    number = 2
    for at, address in enumerate(GPUS):
        if address not in now["there"]:
            continue
        parts = PARTS[now["compute"][address]]
        for part in range(parts):
            rows = {
                "cpu_cores_count": 0,
                "simd_count": 1216 // parts,
                "mem_banks_count": 1,
                "caches_count": 80,
                "io_links_count": 63,
                "p2p_links_count": 1,
                "gfx_target_version": 90402,
                "vendor_id": 4098,
                "device_id": 29857,
                "location_id": int(address[5:7], 16) << 8 | part,
                "domain": 0,
                "drm_render_minor": 128 + 8 * at + part,
                "hive_id": 15188982192727901047,
                "num_xcc": DIES // parts,
            }
            text = "".join(f"{name} {value}\n" for name, value in rows.items())
            write(NODES / str(number) / "properties", text)
            bank = f"heap_type 1\nsize_in_bytes {GIB * 2**30 // parts}\n"
            write(NODES / str(number) / "mem_banks/0/properties", bank)
            number += 1


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def load(now, there=GPUS):
    MODULE.mkdir(parents=True, exist_ok=True)
    now["there"], now["loaded"] = list(there), True
    now["compute"] = dict.fromkeys(GPUS, AUTO[now["memory"]])
    for at, address in enumerate(there):
        folder = DRIVER / address
        write(folder / "product_name", "AMD Instinct MI300X OAM\n")
        write(folder / "mem_info_vram_total", f"{GIB * 2**30}\n")
        write(folder / "available_memory_partition", "NPS1, NPS2, NPS4\n")
        write(folder / "xgmi_hive_info/xgmi_hive_id", "15188982192727901047\n")
        write(folder / "compute_partition_config/xcp_config", "SPX\n")
        write(folder / "compute_partition_config/supported_nps_configs", "NPS1\n")
        write(folder / "compute_partition_config/supported_xcp_configs", ", ".join(PAIRS) + "\n")
        for part in range(8):
            minor = 128 + 8 * at + part
            drm = folder / "drm" if part == 0 else PLATFORM / f"amdgpu_xcp_{8 * at + part}/drm"
            for name in (f"renderD{minor}", f"card{minor - 127}"):
                (drm / name).mkdir(parents=True, exist_ok=True)
                write(DEVICES / "dri" / name, "")
        show_modes(address, now)
    write(DEVICES / "kfd", "")
    show_nodes(now)
    save(now)


def unload(now):
    if now["request"]:
        log(f"firmware {now['request']}")
        now["memory"] = now["request"]
    now["request"], now["there"], now["loaded"] = "", [], False
    for folder in (NODES, MODULE, *DRIVER.glob("0000:*"), *PLATFORM.glob("amdgpu_xcp_*")):
        shutil.rmtree(folder, ignore_errors=True)
    save(now)


def refuse(path, kind):
    sys.exit(f"tee: {path}: {SAID[kind]}")


def tee(path):
    text, name, address = sys.stdin.read().strip(), path.name, path.relative_to(DRIVER).parts[0]
    kind = fault(name)
    log(f"{name} {address} {text}")
    if kind in SAID:
        refuse(path, kind)
    if kind == "hangs":
        time.sleep(1000)
    if kind.endswith("-before"):
        die(kind)
    now = state()
    if name == "xcp_config":
        path.write_text(text + "\n")
        (path.parent / "supported_nps_configs").write_text(", ".join(PAIRS[text]) + "\n")
    elif name == "current_memory_partition":
        if text not in AUTO:
            refuse(path, "EINVAL")
        if text != now["memory"]:
            now["request"] = text
            save(now)
    elif name == "current_compute_partition":
        if text not in PAIRS or now["memory"] not in PAIRS[text]:
            refuse(path, "EINVAL")
        if held(("kfd",)):
            refuse(path, "EBUSY")
        time.sleep(0.2)  # its dies are reset
        now["compute"][address] = text
        show_modes(address, now)
        show_nodes(now)
        save(now)
    if kind.endswith("-after"):
        die(kind)


def modprobe(words):
    call = "unload" if "-r" in words else "load"
    kind = fault(call)
    log(call)
    if kind in SAID:
        sys.exit(f"modprobe: FATAL: Module amdgpu: {SAID[kind]}.")
    if kind == "hangs":
        time.sleep(1000)
    if kind.endswith("-before"):
        die(kind)
    now = state()
    if call == "unload" and now["loaded"]:
        if held(()):
            sys.exit("modprobe: FATAL: Module amdgpu is in use.")
        time.sleep(0.3)
        unload(now)
    elif call == "load" and not now["loaded"]:
        time.sleep(0.3)
        load(now, GPUS[:1] if kind == "lost" else GPUS)
    if kind.endswith("-after"):
        die(kind)


def power_on():
    now = state() if (RUN / "state").exists() else {"memory": "NPS1", "request": "", "loaded": True}
    if (RUN / "forgets").exists():
        now["memory"] = "NPS1"
    now["request"] = ""
    load(now)


program, *words = sys.argv[1:]
if program == "power-on":
    power_on()
elif program == "modprobe":
    if words[-1] != "amdgpu":
        os.execv("/sbin/modprobe", ["modprobe", *words])
    modprobe(words)
else:
    tee(pathlib.Path(words[-1]))
'''

_TEE = f"""#!/bin/sh
case $1 in
{DRIVER}/*) exec {FAKE} tee "$1" ;;
esac
exec /usr/bin/tee "$@"
"""

_MODPROBE = f"""#!/bin/sh
exec {FAKE} modprobe "$@"
"""


def standin_amdgpu() -> dict[str, str]:
    """Return the programs, by path."""
    return {FAKE: _PROGRAM, "/usr/local/bin/tee": _TEE, "/usr/local/bin/modprobe": _MODPROBE}


def install(node: Sandbox) -> None:
    """Give the node its GPUs, in SPX and NPS1, and gpuagent, which holds /dev/kfd."""
    for folder in ("amdgpu", "services", "active", "broken", "cgroups", "bound", "amd/dev"):
        node.path(f"/run/{folder}").mkdir(parents=True, exist_ok=True)
    power_on(node)
    node.path(f"/run/services/{GPUAGENT}").write_text(notifying(f"exec 3< {DEVICES}/kfd"))
    node.run(f"systemctl start {GPUAGENT}")


def power_on(node: Sandbox) -> None:
    """Do what a boot does with the GPUs: the driver is loaded, and knows of no request."""
    done = node.run(f"{FAKE} power-on")
    assert done.returncode == 0, done.stderr


def faults(node: Sandbox, *lines: str) -> None:
    """Have calls of the driver fail from now on."""
    node.run("rm -f /run/amdgpu/count-*")
    node.path("/run/amdgpu/faults").write_text("".join(f"{line}\n" for line in lines))


def asked(node: Sandbox) -> Sequence[str]:
    """Return what the driver was asked for."""
    return node.path(LOG).read_text().splitlines() if node.path(LOG).exists() else []


def modes(node: Sandbox) -> dict[str, str]:
    """Return the modes of each GPU, with the number of its compute nodes: "CPX NPS4 x8"."""
    said = {}
    folders = node.path("/sys/devices/virtual/kfd/kfd/topology/nodes").glob("*/properties")
    rows = [dict(row.split() for row in each.read_text().splitlines()) for each in folders]
    places = [int(row["location_id"]) & 0xFFF8 for row in rows if row["simd_count"] != "0"]
    for address in ADDRESSES:
        folder = f"{DRIVER}/{address}"
        compute = node.path(f"{folder}/current_compute_partition").read_text().strip()
        memory = node.path(f"{folder}/current_memory_partition").read_text().strip()
        said[address] = f"{compute} {memory} x{places.count(int(address[5:7], 16) << 8)}"
    return said


def hold(node: Sandbox, group: str, device: str = "kfd", traps: str = "") -> int:
    """Start a process that holds a device file, in a control group; return its pid."""
    script = f"""
setsid sh -c '{traps} exec 3< {DEVICES}/{device}; exec sleep 1000' > /dev/null 2>&1 < /dev/null &
echo '0::{group}' > /run/cgroups/$!
mount --bind /run/cgroups/$! /proc/$!/cgroup
echo $!
"""
    return int(node.run(script).stdout)
