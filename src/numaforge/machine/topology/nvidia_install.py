"""What the host's files show of NVIDIA's software: modules, libraries, daemons, packages, versions."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from numaforge.lib.given import digits
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.machine.snapshot import catalogue
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.holders import read_daemons
from numaforge.machine.topology.model import NvidiaInstall

# NVSwitches of the first three generations by PCI device id (pci.ids): DGX-2, HGX A100, HGX H100 and H200.
# Those of the fourth are managed through functions of a NIC.
_NVSWITCHES = frozenset({"1ac2", "1af1", "22a3"})
_NVIDIA = "0x10de"

_VERSION = re.compile(r"\b[0-9]{3,}\.[0-9]+(?:\.[0-9]+)?\b")
_LIBRARY = re.compile(r"libnvidia-ml\.so\.([0-9]{3,}\.[0-9]+(?:\.[0-9]+)?)$")
_PLUGINS = f"{ROOT_DIR}/plugins"
_MEMORY_MODE = "CoherentGPUMemoryMode"
_IMEX_UNIT = "/etc/systemd/system/nvidia-imex.service"


def read_nvswitches(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the PCI addresses of the NVSwitches that are PCI functions."""
    return tuple(
        address
        for address, function_files in snapshot.pci_files.items()
        if function_files.get("device", "").strip().removeprefix("0x") in _NVSWITCHES
        and function_files.get("vendor", "").strip() == _NVIDIA
    )


def read_nvidia_install(snapshot: Snapshot) -> NvidiaInstall | None:
    """Return NVIDIA's software on the host; None without a trace of any."""
    files = snapshot.files
    version_line = files.get("/proc/driver/nvidia/version", "").partition("\n")[0]
    version = _VERSION.search(version_line)
    loaded = files.get("/sys/module/nvidia/version", "").strip() or (version[0] if version else None)
    present = snapshot.commands.get("present")
    paths = None if present is None else frozenset(present.split())
    # One that lies behind another link has no version in its name.
    targets = (target for path, target in sorted(snapshot.links.items()) if "libnvidia-ml" in path)
    libraries = map(_LIBRARY.search, targets)
    modules = [p.removeprefix("/sys/module/") for p in paths or () if p.startswith("/sys/module/")]
    imex_commands = snapshot.commands.get("imex commands")
    install = NvidiaInstall(
        loaded=loaded,
        open_module="Open Kernel Module" in version_line if version_line else None,
        on_disk=snapshot.commands.get("modinfo nvidia", "").strip() or None,
        library=next((match[1] for match in libraries if match), None),
        packages=_nvidia_packages(snapshot.commands.get("packages")),
        kernel_modules=None if paths is None else tuple(sorted(modules)),
        daemons=read_daemons(snapshot),
        nouveau_kept_out=_nouveau_kept_out(files),
        char_links=_char_links(paths),
        cdi_specs=None
        if paths is None
        else tuple(sorted(path for path in paths if path.rpartition("/")[0].endswith("/cdi"))),
        compute_domains=None if paths is None else f"{_PLUGINS}/compute-domain.nvidia.com" in paths,
        gpu_claims=None if paths is None else f"{_PLUGINS}/gpu.nvidia.com" in paths,
        imex_service=_imex_service(paths, snapshot.links),
        imex_nodes=digits(snapshot.commands.get("imex nodes")),
        imex_list=snapshot.commands.get("imex list"),
        imex_commands=None if imex_commands is None else imex_commands.strip() == "1",
        imex_channel=None if paths is None or "/dev/null" not in paths else catalogue.IMEX_CHANNEL in paths,
        gpu_memory_mode=read_parameters(files).get(_MEMORY_MODE),
        gpu_memory_mode_next=_asked_memory_mode(files),
    )
    installed = loaded or install.library or install.packages or install.daemons
    return install if installed or {"nvidia", "nouveau"} & {*(install.kernel_modules or ())} else None


def read_parameters(files: Mapping[str, str]) -> dict[str, str]:
    """Return the options that NVIDIA's module runs with, without their prefix NVreg_ and without quotes."""
    lines = (line.partition(":") for line in files.get("/proc/driver/nvidia/params", "").splitlines())
    return {name.strip(): value.strip().strip('"') for name, _, value in lines}


def _asked_memory_mode(files: Mapping[str, str]) -> str | None:
    """Return the mode that the next load of the module takes, "" without one; None where not looked at.

    modprobe reads the files by their names, whatever folder they are in, and the last option counts; the
    kernel's command line comes after all of them.
    """
    by_name: dict[str, str] = {}
    for folder in reversed(catalogue.SYSTEM_FOLDERS):
        below = f"{folder}/modprobe.d/"
        by_name |= {path.removeprefix(below): text for path, text in files.items() if path.startswith(below)}
    if not by_name:
        return None
    options = [
        word
        for _, text in sorted(by_name.items())
        for line in text.splitlines()
        if (words := line.split())[:2] == ["options", "nvidia"]
        for word in words[2:]
    ]
    arguments = files.get("/proc/cmdline", "").split()
    options += [word.removeprefix("nvidia.") for word in arguments if word.startswith("nvidia.")]
    pairs = (word.partition("=") for word in options)
    modes = [value.strip('"') for name, _, value in pairs if name == f"NVreg_{_MEMORY_MODE}"]
    return modes[-1] if modes else ""


def _nvidia_packages(answer: str | None) -> dict[str, str] | None:
    """Return the installed packages; a version without its epoch and the distribution's own part."""
    if answer is None:
        return None
    rows = [row for line in answer.splitlines() if len(row := line.split()) == 4]
    return {
        name: version.rpartition(":")[2].partition("-")[0]
        for _, status, name, version in rows
        if status == "installed" and any(fnmatchcase(name, glob) for glob in catalogue.NVIDIA_PACKAGES)
    }


def _nouveau_kept_out(files: Mapping[str, str]) -> bool | None:
    """Say whether modprobe or the kernel's command line keeps nouveau out; None where not looked at."""
    rules = [text for path, text in files.items() if "/modprobe.d/" in path]
    if not rules:
        return None
    blocked = re.compile(
        r"^[ \t]*(?:blacklist\s+nouveau\b|install\s+nouveau\s+/(?:usr/)?bin/(?:true|false))", re.M
    )
    arguments = files.get("/proc/cmdline", "").split()
    denied = [
        name
        for argument in arguments
        if argument.startswith(("modprobe.blacklist=", "module_blacklist=", "rd.driver.blacklist="))
        for name in argument.partition("=")[2].split(",")
    ]
    return any(map(blocked.search, rules)) or "nouveau" in denied or "nouveau.modeset=0" in arguments


def _char_links(paths: frozenset[str] | None) -> bool | None:
    """Say whether /dev/char leads to NVIDIA's devices; None where nothing at all is linked there."""
    if paths is None or "/dev/char/1:3" not in paths:
        return None
    return any(path.startswith("/dev/char/195:") for path in paths)


def _imex_service(paths: frozenset[str] | None, links: Mapping[str, str]) -> str | None:
    if paths is None or "/usr/bin/nvidia-imex" not in paths:
        return None
    if links.get(_IMEX_UNIT) == "/dev/null":
        return "masked"
    return "enabled" if any(path.endswith(".wants/nvidia-imex.service") for path in paths) else "disabled"
