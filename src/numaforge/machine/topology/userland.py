"""Software on the host besides kernel and kubelet: daemons, packages, containerd, swap, other managers."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from numaforge.lib.given import digits
from numaforge.machine.snapshot import catalogue
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import Containerd, HostProcess, InstalledPackage, Userland
from numaforge.machine.topology.units import Units, read_units

_LIMIT = r"^Max {}\s+(\S+)"
_DRIVER_TUNING = re.compile(r"^(RUN_(?:SYSCTL|AFFINITY_TUNER|MLNX_TUNE))=yes\b", re.MULTILINE)


def read_userland(snapshot: Snapshot) -> Userland | None:
    """Return the host's userland; None for a snapshot that did not capture it."""
    pids = snapshot.commands.get("host daemons")
    present = snapshot.commands.get("present")
    if pids is None or present is None:
        return None
    files, present_paths = snapshot.files, frozenset(present.split())
    apt_texts = [text for path, text in sorted(files.items()) if path.startswith("/etc/apt/apt.conf.d/")]
    clock = snapshot.commands.get("timedatectl NTPSynchronized", "")
    manager = next((name for file, name in _MANAGERS.items() if f"/usr/bin/{file}" in present_paths), None)
    return Userland(
        processes=tuple(_processes(files, pids, read_units(snapshot))),
        services=tuple(sorted({PurePosixPath(path).name for path in present_paths if ".wants/" in path})),
        package_manager=manager,
        can_hold=not _HOLDS_OF_DNF.isdisjoint(present_paths) if manager == "dnf" else manager is not None,
        packages=_packages(snapshot.commands.get("packages"), files, manager),
        upgrades=_upgrades(apt_texts, present_paths, manager),
        upgrades_skip=tuple(_skipped(apt_texts)),
        containerd=_containerd(snapshot, present_paths),
        clock_synchronised={"yes": True, "no": False}.get(clock),
        swaps=_swaps(files),
        swap_units=tuple(sorted(PurePosixPath(path).name for path in present_paths if _brings_swap(path))),
        swap_kept_off="/etc/systemd/system/swap.d/90-numaforge.conf" in present_paths,
        tuned_profiles=tuple(files.get(catalogue.TUNED_PROFILE, "").split()),
        tuned=_tuned(files),
        sysctl_files=_sysctl_files(files),
        claim_drivers=_claim_drivers(present_paths),
        rdma_plugin=any(fnmatchcase(path, catalogue.RDMA_PLUGIN_LOGS) for path in present_paths),
        rdma_cni=catalogue.RDMA_CNI in present_paths,
        # the switches with which NVIDIA's network driver tunes the host when it is loaded
        driver_tuning=tuple(_DRIVER_TUNING.findall(files.get("/etc/infiniband/openib.conf", ""))),
    )


def _claim_drivers(present: frozenset[str]) -> tuple[str, ...] | None:
    """Return the drivers with a socket: NAME-reg.sock, or NAME-UID-reg.sock during a rolling update."""
    if catalogue.CLAIM_DRIVERS not in present:
        return None
    names = (path.rpartition("/") for path in present)
    sockets = (name for folder, _, name in names if folder == catalogue.CLAIM_DRIVERS)
    return tuple(sorted({name.removesuffix("-reg.sock").partition("-")[0] for name in sockets}))


def _processes(files: Mapping[str, str], pids: str, units: Units) -> Iterator[HostProcess]:
    for pid in pids.split():
        name, cgroup = files.get(f"/proc/{pid}/comm", "").strip(), files.get(f"/proc/{pid}/cgroup", "")
        if not name or not units.may_be_daemon(digits(pid) or 0, cgroup):
            continue  # it has ended since, or only bears the name
        limits = files.get(f"/proc/{pid}/limits", "")
        yield HostProcess(
            name,
            units.unit_of(cgroup),
            in_pod=bool(units.pod_path(cgroup)),
            open_files=_limit(limits, "open files"),
            locked_memory_bytes=_limit(limits, "locked memory"),
        )


def _limit(text: str, name: str) -> int | None:
    match = re.search(_LIMIT.format(name), text, re.MULTILINE)
    return digits(match[1]) if match else None


# ---- packages ----


_MANAGERS = {"apt-mark": "apt", "dnf": "dnf", "dnf5": "dnf", "zypper": "zypper"}
_LOCKS = ("dnf/plugins/versionlock.list", "dnf/versionlock.toml", "zypp/locks")
_HOLDS_OF_DNF = frozenset({"/usr/bin/dnf5", "/etc/dnf/plugins/versionlock.conf"})


def _packages(
    answer: str | None, files: Mapping[str, str], manager: str | None
) -> tuple[InstalledPackage, ...] | None:
    if answer is None:
        return None
    locked = None if manager == "apt" else frozenset(_locked(files))
    rows = sorted({tuple(row) for line in answer.splitlines() if len(row := line.split()) == 4})
    return tuple(
        InstalledPackage(name, version, kind, wish == "hold" if locked is None else name in locked)
        for wish, status, name, version in rows
        if status == "installed" and (kind := package_kind(name)) is not None
    )


def package_kind(name: str) -> str | None:
    """Return the kind of a package, "kernel", "driver", "kubelet" or "containerd"; None for any other."""
    # The container toolkit is named like the driver and has versions of its own.
    kinds = reversed(catalogue.HELD_PACKAGES.items())
    return next((kind for kind, globs in kinds if any(fnmatchcase(name, glob) for glob in globs)), None)


def _locked(files: Mapping[str, str]) -> Iterator[str]:
    """Yield the packages that dnf's versionlock and zypper's locks name."""
    of_dnf, of_dnf5, of_zypper = (files.get(f"/etc/{name}", "") for name in _LOCKS)
    for entry in re.findall(r"^(?!#|!)(\S+)", of_dnf, re.MULTILINE):
        evr = re.fullmatch(r"(.+)-[0-9]+:[^-]+-[^-]+", entry)
        yield evr[1] if evr else entry
    yield from re.findall(r'^[ \t]*name\s*=\s*"([^"]+)"', of_dnf5, re.MULTILINE)
    yield from re.findall(r"^solvable_name:\s*(\S+)", of_zypper, re.MULTILINE)


_APT_PERIODIC = re.compile(r'^[ \t]*APT::Periodic::Unattended-Upgrade\s+"([^"]*)"', re.MULTILINE)
_APT_BLACKLIST = re.compile(r"Unattended-Upgrade::Package-Blacklist(?:::)?\s*\{")


def _upgrades(apt_texts: Iterable[str], present: frozenset[str], manager: str | None) -> bool | None:
    if manager == "apt":  # a later file wins
        periodic = [found for text in apt_texts for found in _APT_PERIODIC.findall(text)]
        return bool(periodic) and periodic[-1] not in ("", "0")
    if manager == "dnf":
        return any("/dnf-automatic" in path for path in present)
    return None


def _skipped(apt_texts: Iterable[str]) -> Iterator[str]:
    for text in apt_texts:
        uncommented = re.sub(r"^[ \t]*(?://|#).*$", "", text, flags=re.MULTILINE)
        for opening in _APT_BLACKLIST.finditer(uncommented):
            block = uncommented[opening.end() : max(uncommented.find("}", opening.end()), 0)]
            yield from re.findall(r'"([^"]+)"', block)


# ---- containerd ----

_VERSION_LINE = re.compile(r"^([^:\n]+):\s*version\s*=\s*([0-9]{1,9})", re.MULTILINE)


def _containerd(snapshot: Snapshot, present: frozenset[str]) -> Containerd | None:
    version_answer = snapshot.commands.get("containerd --version")
    dump_text = snapshot.commands.get("containerd config dump")
    dump = None if dump_text is None else _toml(dump_text)
    if version_answer is None and dump is None:
        return None
    version = re.search(r"\bv?([0-9]+\.[0-9]+\.[0-9]+)", (version_answer or "").partition(" ")[2])
    # Version 3 has a plugin each for images and for running; version 2 one for both.
    plugins = _at(dump, "plugins") or {}
    cri = _at(plugins, "io.containerd.cri.v1.runtime") or _at(plugins, "io.containerd.grpc.v1.cri")
    images = _at(plugins, "io.containerd.cri.v1.images", "pinned_images") or {}
    runtimes = _at(cri, "containerd", "runtimes")
    nri = _at(plugins, "io.containerd.nri.v1.nri", "disable")
    versions = _VERSION_LINE.findall(snapshot.commands.get("containerd files", ""))
    return Containerd(
        version=version[1] if version else None,
        config_version=_at(dump, "version"),
        imports=_as_texts(_at(dump, "imports")),
        versions={f"/{path.lstrip('/')}": int(version) for path, version in versions},
        fragments=tuple(sorted(path for path in present if path.startswith("/etc/containerd/conf.d/"))),
        runtimes=None
        if runtimes is None
        else {name: _at(runtime, "options", "SystemdCgroup") for name, runtime in sorted(runtimes.items())},
        default_runtime=_at(cri, "containerd", "default_runtime_name"),
        cdi=_at(cri, "enable_cdi"),
        cdi_folders=_as_texts(_at(cri, "cdi_spec_dirs")),
        nri=None if nri is None else not nri,
        sandbox_image=_at(cri, "sandbox_image") or _at(images, "sandbox"),
    )


def _toml(text: str) -> Mapping[str, Any] | None:
    import tomllib  # few hosts have such a file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None  # what it says is unknown


def _at(table: Any, *keys: str) -> Any:
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


def _as_texts(value: object) -> tuple[str, ...] | None:
    return tuple(map(str, value)) if isinstance(value, list) else None


# ---- swap, time, tuning by others ----


def _swaps(files: Mapping[str, str]) -> tuple[str, ...] | None:
    text = files.get("/proc/swaps")
    return None if text is None else tuple(line.split()[0] for line in text.splitlines()[1:] if line.strip())


def _brings_swap(path: str) -> bool:
    services = (f"/usr/lib/systemd/system/{name}.service" for name in catalogue.SWAP_SERVICES)
    return path.endswith(".swap") or path in services


def _tuned(files: Mapping[str, str]) -> dict[str, str]:
    """Return what the active profiles set, with what they include; a later one and an including one win."""
    settings: dict[str, str] = {}

    def add(name: str, including: tuple[str, ...]) -> None:
        paths = (f"{folder}/{name}/tuned.conf" for folder in catalogue.TUNED_FOLDERS)
        text = next((files[path] for path in paths if path in files), "")
        if name in including:
            return
        options, section = dict[str, str](), ""
        for line in text.splitlines():
            stripped = line.strip()
            if header := re.fullmatch(r"\[(.+)\]", stripped):
                section = header[1]
            elif (pair := re.match(r"([^#;=\s][^=]*?)\s*=\s*(.*)", stripped)) and section:
                options[f"{section}.{pair[1]}"] = pair[2]
        for parent in re.split(r"[\s,]+", options.get("main.include", "")):
            add(parent, (*including, name))
        settings.update(options)

    for profile in files.get(catalogue.TUNED_PROFILE, "").split():
        add(profile, ())
    return dict(sorted(settings.items()))


def _sysctl_files(files: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return what each file of sysctl.d sets, by name; an earlier folder's file hides a later's."""
    by_name: dict[str, str] = {}
    for folder in reversed(catalogue.SYSTEM_FOLDERS):
        for path in files:
            if path.startswith(f"{folder}/sysctl.d/"):
                by_name[PurePosixPath(path).name] = path
    # /etc/sysctl.conf counts as 99-sysctl.conf where a link of that name leads to it.
    read = {by_name[name]: dict(_sysctl_lines(files[by_name[name]])) for name in sorted(by_name)}
    return {path: settings for path, settings in read.items() if settings}


def _sysctl_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith(("#", ";")):
            yield dotted(name.strip().lstrip("-")), " ".join(value.split())


def dotted(name: str) -> str:
    """Return a sysctl's name with dots, as sysctl.d(5) reads it."""
    first = re.search(r"[./]", name)
    return name.translate(str.maketrans("./", "/.")) if first and first[0] == "/" else name
