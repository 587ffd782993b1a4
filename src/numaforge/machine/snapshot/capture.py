"""Take a snapshot: the script that a host runs, and the readers of its output and of a folder."""

import base64
import posixpath
import re
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numaforge.machine.snapshot.catalogue as catalogue
import numaforge.machine.snapshot.nvml_library as nvml_library
import numaforge.machine.snapshot.pci_functions as pci_functions
import numaforge.machine.snapshot.pod_resources_probe as pod_resources_probe
import numaforge.machine.snapshot.redaction as redaction
from numaforge.lib import bounded, kubelet_paths, shell
from numaforge.lib.errors import SnapshotError
from numaforge.lib.framing import Answer, Output, asking
from numaforge.lib.given import NotJsonError, digits, parse_json
from numaforge.lib.programs import CAPTURED_WITH, missing
from numaforge.machine.snapshot.model import SCHEMA, Snapshot
from numaforge.machine.snapshot.root_folder import LinkLoopError, RootFolder

_PART = f"snapshot {SCHEMA}"
_AS_THEY_ARE = "N"
_LOCAL_LIMIT_SECONDS = 180


def script(root: str = "") -> str:
    """Return the POSIX sh script that captures a host, or the tree below `root` without any command."""
    return asking(_capture(root))


@cache
def _capture(root: str) -> str:
    values = {
        "schema": str(SCHEMA),
        "tools_wanted": " ".join(CAPTURED_WITH),
        "root": root,
        "attributes_wanted": _lines(catalogue.ATTRIBUTES),
        "planned_wanted": _lines(catalogue.PLANNED),
        "interrupts": _relative(catalogue.INTERRUPTS),
        "settings_wanted": " ".join(map(_relative, catalogue.SETTINGS)),
        "unwanted_settings": " ".join(catalogue.UNWANTED_SETTINGS),
        "links_wanted": " ".join(map(_relative, catalogue.LINKS)),
        "vpd_wanted": _relative(catalogue.VPD),
        "switch_management": catalogue.SWITCH_MANAGEMENT,
        "texts_wanted": " ".join(map(_relative, catalogue.TEXTS)),
        "unit_files_wanted": " ".join(map(_relative, _unit_globs())),
        "config_file": kubelet_paths.CONFIG_PATH,
        "config_dir": kubelet_paths.DROP_IN_DIR,
        "root_dir": kubelet_paths.ROOT_DIR,
        "state_files": " ".join(catalogue.STATE_FILES),
        "device_checkpoint": catalogue.DEVICE_CHECKPOINT,
        "pod_resources_socket": catalogue.POD_RESOURCES,
        "pod_resources_probe": _pod_resources_probe(),
        "pod_logs": _relative(catalogue.POD_LOGS),
        "cpuinfo": _relative(catalogue.CPUINFO),
        "plan": _relative(catalogue.PLAN),
        "present_wanted": " ".join(map(_relative, catalogue.PRESENT)),
        "daemons_wanted": catalogue.DAEMONS,
        "imex_nodes": _relative(catalogue.IMEX_NODES),
        "imex_config": _relative(catalogue.IMEX_CONFIG),
        "packages_wanted": " ".join(dict.fromkeys(chain(*catalogue.HELD_PACKAGES.values()))),
        "host_daemons_wanted": catalogue.HOST_DAEMONS,
        "units_wanted": " ".join(catalogue.UNITS),
        "kubelet_unit": catalogue.UNIT,
        "kubelet_parents": " ".join(catalogue.KUBELET_PARENTS),
        "kubelet_hosts": " ".join(catalogue.KUBELET_HOSTS),
        "distributions_dirs": " ".join(catalogue.DISTRIBUTIONS_DIRS),
        "arguments_files": " ".join(catalogue.ARGUMENTS_FILES),
        "snap_data": catalogue.SNAP_DATA,
        "snap_common": catalogue.SNAP_COMMON,
        "containerd_units": " ".join(catalogue.CONTAINERD_UNITS),
        "program_folders": " ".join(catalogue.PROGRAM_FOLDERS),
        "containerd_keys": catalogue.CONTAINERD_KEYS,
        "tuned_profile": _relative(catalogue.TUNED_PROFILE),
        "tuned_folders": " ".join(map(_relative, catalogue.TUNED_FOLDERS)),
        "modprobe_wanted": " ".join(map(_relative, catalogue.MODPROBE)),
        "direct_nic": catalogue.DIRECT_NIC,
        "switches": catalogue.SWITCHES,
        "kernel_types": _relative(catalogue.KERNEL_TYPES),
        "probe": _probe(),
    }
    return shell.assignments(values) + shell.library(
        "lib/programs", "lib/kernel_files", "lib/units", "node/paths", "machine/snapshot/capture"
    )


def from_local() -> Snapshot:
    """Capture the local machine."""
    try:
        finished = bounded.run_script(script(), "packed", timeout=_LOCAL_LIMIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SnapshotError(f"the local capture failed: {error}") from error
    return parse_output(finished.stdout.decode("utf-8", "surrogateescape"))


def parse_output(output: Output) -> Snapshot:
    """Read what the script printed, as one text or as lines without their newlines.

    Bytes of the packed form that are no UTF-8 are surrogates, as `surrogateescape` decodes them.

    Raises HostUnreachableError when the output is cut off, SnapshotError when it is something else.
    """
    answer = Answer.of(output)
    if lacks := missing(answer.parts.get("lacks", ())):
        raise SnapshotError(
            f"the host lacks {', '.join(lacks)}, without which it would show something else than it is",
            remedy="install them there (coreutils, findutils, grep and sed, or busybox), in the PATH that a "
            "command over SSH has",
        )
    return _sections(answer.part(_PART))


# A PCI address is the only part of a path that holds a colon.
_ATTRIBUTE = re.compile(
    r"(?P<path>(?:sys|proc)(?:/(?:[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]|[^/:]+))+):(?P<line>.*)"
)


_LISTED = re.compile(r"[-bcdlps][-rwxsStT]{9}[.+@]?")  # a file's type and rights as `ls -l` prints them


def _sections(lines: Sequence[str]) -> Snapshot:
    attributes: dict[str, list[str]] = {}
    links: dict[str, str] = {}
    unreadable: list[str] = []
    blobs: dict[str, dict[str, list[str]]] = {kind: {} for kind in "tcCTP"}
    answers: dict[str, str] = {}
    sizes: dict[str, int] = {}
    blob: list[str] | None = None
    texts_begin = lines.index(_AS_THEY_ARE) if _AS_THEY_ARE in lines else len(lines)
    for raw in lines[:texts_begin]:  # with surrogates of bytes that are not UTF-8
        line = raw if raw.isascii() else raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        kind, _, rest = line.partition(" ")
        if kind == "" and blob is not None:
            blob.append(rest)
        elif attribute := _ATTRIBUTE.fullmatch(line):
            attributes.setdefault("/" + attribute["path"], []).append(attribute["line"])
        elif _LISTED.fullmatch(kind):
            if kind.startswith("l"):
                listing, _, target = rest.partition(" -> ")
                links["/" + listing.rpartition(" ")[2]] = target
        elif kind == "u":
            unreadable.append(rest)
        elif kind == "p":
            size, _, path = rest.partition(" ")
            sizes[path] = _size(size, line)
        elif kind == "v":
            name, _, words = rest.partition(":")
            answers[name] = words
        elif kind in blobs:
            blob = blobs[kind][rest] = []
        else:
            raise SnapshotError(f"the output holds a line that the script does not print: {line[:80]!r}")
    cards = {name: _bytes(rows) for name, rows in blobs["t"].items() if name.endswith("/vpd")}
    texts = {name: _decode(rows) for name, rows in blobs["t"].items() if name not in cards}
    texts |= pci_functions.cards(cards) | pci_functions.of_dump(sizes, blobs["P"].get("", ()))
    texts |= _numbered(_bytes(blobs["T"].get("", ())))
    as_they_are = "".join(f"{line}\n" for line in lines[texts_begin + 1 :])
    texts |= _numbered(as_they_are.encode("utf-8", "surrogateescape"))
    commands = {name: _decode(rows) for name, rows in blobs["c"].items()}
    commands |= {name: "\n".join(rows) for name, rows in blobs["C"].items()} | answers
    nvml, nvidia_smi = commands.pop("nvml", None), commands.pop("nvidia-smi -q -x", None)
    return Snapshot(
        files=_clean({path: _small("\n".join(lines_of)) for path, lines_of in attributes.items()}, texts),
        links=_resolved(links),
        commands={name: answer.strip() for name, answer in commands.items()},
        nvml=None if nvml is None else _nvml_answer(nvml),
        nvidia_smi=None if nvidia_smi is None else redaction.redact_nvidia_smi(nvidia_smi),
        unreadable=tuple(sorted(unreadable)),
    )


_SIZE = re.compile(rb"\s*(?P<size>\d+) (?P<path>.+)")
_NUMBERED = re.compile(rb"(?P<path>.+?):\d+:(?P<line>.*)")


def _numbered(output: bytes) -> dict[str, str]:
    """Return the texts of many files from `SIZE PATH` and then `PATH:NUMBER:LINE` lines.

    The size shows whether the last line of a text ends in a newline. A text without a size is only a
    beginning: the first CPU's lines, up to the first empty line.
    """
    sizes: dict[bytes, int] = {}
    texts: dict[bytes, list[bytes]] = {}
    begins, text_lines = b"", list[bytes]()  # of the file whose line was the last
    for line in output.split(b"\n")[:-1]:
        number, _, rest = line[len(begins) :].partition(b":")
        if begins and number.isdigit() and line.startswith(begins):
            text_lines.append(rest + b"\n")
        elif not texts and b"total" not in sizes and (counted := _SIZE.fullmatch(line)):
            sizes[counted["path"]] = _size(counted["size"].decode(), line.decode("utf-8", "replace"))
        elif numbered := _NUMBERED.fullmatch(line):
            path, text = numbered.groups()
            begins, text_lines = path + b":", texts.setdefault(path, [])
            text_lines.append(text + b"\n")
        else:
            raise SnapshotError(f"the output holds a text without its path: {line[:80]!r}")
    files = {}
    for path, lines in texts.items():
        if path not in sizes and b"\n" in lines:
            del lines[lines.index(b"\n") + 1 :]
        content = b"".join(lines)
        content = content[:-1] if sizes.get(path) == len(content) - 1 else content
        files[f"/{path.decode('utf-8', 'replace')}"] = content.decode("utf-8", "replace")
    return files


def _size(text: str, line: str) -> int:
    size = digits(text)
    if size is None:
        raise SnapshotError(f"the output holds a file without its size: {line[:80]!r}")
    return size


def _small(text: str) -> str:
    return text.replace("\0", "").rstrip("\n")


def _nvml_answer(text: str) -> Mapping[str, Any]:
    try:
        answer = parse_json(text)
    except NotJsonError as error:
        raise SnapshotError(f"the NVML probe printed something else than JSON: {text[:80]!r}") from error
    if not isinstance(answer, dict):
        raise SnapshotError(f"the NVML probe printed something else than a mapping: {text[:80]!r}")
    return answer


def _decode(rows: Iterable[str]) -> str:
    return _bytes(rows).decode("utf-8", "replace")


def _bytes(rows: Iterable[str]) -> bytes:
    hex_text = "".join(rows)
    try:
        return bytes.fromhex(hex_text)
    except ValueError as error:
        message = f"the output holds a text that is not hex: {hex_text[:40]!r}"
        raise SnapshotError(message, remedy="capture the host again") from error


def _resolved(targets: Mapping[str, str]) -> dict[str, str]:
    """Return links with absolute targets; a link below another link starts from that link's target."""
    links: dict[str, str] = {}
    for link in sorted(targets):
        folder = posixpath.dirname(link)
        links[link] = posixpath.normpath(posixpath.join(links.get(folder, folder), targets[link]))
    return links


def _clean(attributes: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, str]:
    files = dict(attributes)
    for path, text in texts.items():
        if path == catalogue.CPUINFO:
            files[path] = redaction.redact_cpuinfo(text)
        elif path == "/proc/mounts":
            files[path] = _host_mounts(text)
        elif path.endswith(f"/{catalogue.DEVICE_CHECKPOINT}"):
            files[path] = redaction.redact_device_checkpoint(text)
        elif path.startswith(("/sys/", "/proc/")) and not path.endswith("cmdline"):
            files[path] = text
        else:
            files[path] = redaction.redact(text)
    return files


_POD_MOUNTS = f"{kubelet_paths.ROOT_DIR}/pods/"
_CONTAINER_MOUNTS = (_POD_MOUNTS, "/run/containerd/", "/var/lib/containerd/", "/run/netns/")


def _host_mounts(text: str) -> str:
    rows = [(line, fields) for line in text.splitlines(keepends=True) if len(fields := line.split()) >= 3]
    return redaction.redact(
        "".join(
            line
            for line, (_, place, kind, *_) in rows
            if kind not in ("overlay", "nsfs") and not place.startswith(_CONTAINER_MOUNTS)
        )
    )


def _relative(path: str) -> str:
    return path.removeprefix("/")


def _lines(attributes: Iterable[catalogue.Attributes]) -> str:
    return "\n".join(f"{_relative(wanted.folders)}\t{wanted.names}" for wanted in attributes)


def _unit_globs() -> list[str]:
    units = (f"{folder}/{catalogue.UNIT}" for folder in catalogue.UNIT_FOLDERS)
    return [glob for unit in units for glob in (unit, f"{unit}.d/*.conf")]


@cache
def _probe() -> str:
    """Return a Python program that includes pynvml: a host needs only python3 and the driver."""
    # The library is tried first: a host without a driver should not pay for unpacking.
    return "\n".join(
        (
            "import base64, ctypes, json, sys, types, zlib",
            'ctypes.CDLL("libnvidia-ml.so.1")',
            "def module(name, packed):",
            "    made = sys.modules[name] = types.ModuleType(name)",
            '    exec(compile(zlib.decompress(base64.b64decode(packed)), name, "exec"), made.__dict__)',
            "    return made",
            f'pynvml = module("pynvml", "{_packed(nvml_library.library_source())}")',
            f'probe = module("probe", "{_packed(nvml_library.probe_source())}")',
            'print(json.dumps(probe.answers(pynvml), separators=(",", ":")))',
        )
    )


@cache
def _pod_resources_probe() -> str:
    return "\n".join(
        (
            "import base64, json, sys, zlib",
            f'exec(zlib.decompress(base64.b64decode("{_packed(nvml_library.sent(pod_resources_probe))}")))',
            "found = answer(sys.argv[1])",
            'print(found if isinstance(found, str) else json.dumps(found, separators=(",", ":")))',
        )
    )


def _packed(source: str) -> str:
    return base64.b64encode(zlib.compress(source.encode(), 9)).decode("ascii")


def from_root(root: Path) -> Snapshot:
    """Capture the tree of another machine that lies below a folder; links in it never lead out of it."""
    if not root.is_dir():
        raise SnapshotError("is not a folder", where=str(root))
    snapshot = _Tree(root).snapshot()
    if not snapshot.files:
        raise SnapshotError(
            "does not hold a machine's files",
            where=str(root),
            remedy="name the folder that holds the sys, proc and etc of a machine",
        )
    return snapshot


_POD_UID = re.compile(r"[0-9a-f-]{32,}")
_IMEX_COMMANDS = r"^[ \t]*IMEX_CMD_ENABLED[ \t]*=[ \t]*(.+)"


class _Tree:
    """A root file system below a folder: absolute links and `..` stay inside it."""

    def __init__(self, root: Path) -> None:
        self._folder = RootFolder(root)
        self._unreadable: list[str] = []
        self._roots: list[str] = []  # the kubelet's

    def snapshot(self) -> Snapshot:
        attributes = dict(self._attributes())
        for path in self._glob(catalogue.VPD):
            if (data := self._noted(path)) is not None:
                keyword = catalogue.SWITCH_MANAGEMENT
                attributes[path] = keyword if keyword.encode() in data.replace(b"\0", b"") else ""
        has_nvidia = any(self._find(f"/sys/module/{name}") for name in ("nvidia", "nouveau"))
        globs = (*catalogue.TEXTS, *(catalogue.MODPROBE if has_nvidia else ()))
        paths = (*(path for glob in globs for path in self._glob(glob)), *self._kubelet_paths())
        contents = {path: data for path in paths if (data := self._noted(path)) is not None}
        texts = {path: data.decode("utf-8", "replace") for path, data in contents.items()}
        if self._bytes(catalogue.CPUINFO) is not None:
            has_topology = self._find(f"{catalogue.CPU}/cpu0/topology") is not None
            text = self._text(catalogue.CPUINFO)
            first = re.match(r"(?:.+\n)*\n?", text)
            texts[catalogue.CPUINFO] = first[0] if has_topology and first else text
        pods = self._pods(texts)
        functions = self._pci_functions()
        configs = {f"{folder}/config": self._bytes(f"{folder}/config") for folder in functions}
        texts |= {path: pci_functions.as_text(one) for path, one in configs.items() if one is not None}
        for path in (f"{function}/iommu_group/type" for function in functions):
            if kind := self._small(path):
                attributes[path] = kind
        if any(self._small(f"{function}/device") == f"0x{catalogue.DIRECT_NIC}" for function in functions):
            vpds = {path: self._bytes(path) for path in (f"{function}/vpd" for function in functions)}
            texts |= pci_functions.cards({path: vpd for path, vpd in vpds.items() if vpd})
        types = self._bytes(catalogue.KERNEL_TYPES) if any(map(self._is_file, configs)) else None
        links = {
            path: self._link(path)
            for glob in (*catalogue.LINKS, *(f"{folder}/iommu_group" for folder in functions))
            for path in self._glob(glob)
        }
        return Snapshot(
            files=_clean(attributes, texts),
            commands={
                **({"pods": pods} if pods else {}),
                **({} if types is None else {"config_acs": "yes" if b"pci_config_acs" in types else "no"}),
                **self._words(),
            },
            links=_resolved({path: target for path, target in links.items() if target is not None}),
            unreadable=tuple(sorted(self._unreadable)),
        )

    def _pci_functions(self) -> list[str]:
        """Return the folders of GPUs, network functions, NICs' switches, and the bridges above them."""
        names: dict[str, None] = {}
        devices = f"0x({catalogue.DIRECT_NIC}|{catalogue.SWITCHES})"
        for device in self._glob("/sys/bus/pci/devices/*") if self._glob("/sys/class/infiniband/*") else ():
            pci_class, pci_device = (self._small(f"{device}/{name}") or "" for name in ("class", "device"))
            relevant = catalogue.PCI_FUNCTIONS.fullmatch(pci_class) or re.fullmatch(devices, pci_device)
            if relevant and self._find(f"{device}/physfn") is None:
                names |= dict.fromkeys(re.findall(r"[^/]+:[^/]+:[^/]+\..", self._link(device) or ""))
        return [f"/sys/bus/pci/devices/{name}" for name in names]

    def _attributes(self) -> Iterator[tuple[str, str]]:
        for attribute in catalogue.ATTRIBUTES:
            for folder in self._glob(attribute.folders):
                for alternatives in attribute.names.split():
                    paths = (f"{folder}/{name}" for name in alternatives.split("|"))
                    path = next((path for path in paths if self._is_file(path)), None)
                    if path is not None and (text := self._small(path)) is not None:
                        yield path, text
        for path in (path for glob in catalogue.SETTINGS for path in self._glob(glob)):
            name = posixpath.basename(path)
            if any(fnmatchcase(name, unwanted) for unwanted in catalogue.UNWANTED_SETTINGS):
                continue
            if (text := self._small(path)) is not None:
                yield path, text

    def _kubelet_paths(self) -> Iterator[str]:
        """Yield the files of daemons, and those that the flags in the kubelet's unit, no process's, name."""
        daemons, host_daemons = map(self._processes, (catalogue.DAEMONS, catalogue.HOST_DAEMONS))
        yield from (f"{process}/{name}" for process in daemons for name in ("comm", "cgroup"))
        yield from (f"{process}/{name}" for process in host_daemons for name in ("comm", "cgroup", "limits"))
        yield from self._tuned_profiles(self._text(catalogue.TUNED_PROFILE).split(), set())
        units = [path for glob in _unit_globs() for path in self._glob(glob)]
        texts = [self._text(path) for path in units]
        pattern = re.compile(r"^[ \t]*EnvironmentFile=-?(\S+)", re.MULTILINE)
        environment_files = sorted({path for text in texts for path in pattern.findall(text)})
        yield from (*units, *environment_files, *catalogue.ARGUMENTS_FILES)
        texts += map(self._text, environment_files)
        texts += [catalogue.expand_snap(self._text(path)) for path in catalogue.ARGUMENTS_FILES]
        flags = _kubelet_flags(" ".join(texts))
        self._roots = list(dict.fromkeys((kubelet_paths.ROOT_DIR, *flags["--root-dir"])))
        yield from sorted({kubelet_paths.CONFIG_PATH, *flags["--config"]})
        folders = {kubelet_paths.DROP_IN_DIR, *catalogue.DISTRIBUTIONS_DIRS, *flags["--config-dir"]}
        for folder in sorted(folders):
            yield from self._drop_ins(folder, (self._find(folder),))
        for folder in self._roots:
            yield from (f"{folder}/{name}" for name in (*catalogue.STATE_FILES, catalogue.DEVICE_CHECKPOINT))

    def _pods(self, texts: Mapping[str, str]) -> str:
        """Return the names of the folders of pods that have devices, as the kubelet writes them."""
        claims = "".join(
            text for path, text in texts.items() if path.endswith(f"/{catalogue.DEVICE_CHECKPOINT}")
        )
        folders = [catalogue.POD_LOGS, *(f"{root}/pods" for root in self._roots)]
        names = [posixpath.basename(path) for folder in folders for path in self._glob(f"{folder}/*")]
        uids = {name: name.rpartition("_")[2] for name in names}
        return " ".join(name for name, uid in uids.items() if _POD_UID.fullmatch(uid) and uid in claims)

    def _processes(self, names: str) -> list[str]:
        comms = (path for path in self._glob("/proc/[0-9]*/comm") if self._small(path) in names.split())
        return list(map(posixpath.dirname, comms))

    def _tuned_profiles(self, names: Iterable[str], included_by: set[str]) -> Iterator[str]:
        """Yield the files of TuneD's profiles and of those that they include."""
        for name in names:
            paths = (f"{folder}/{name}/tuned.conf" for folder in catalogue.TUNED_FOLDERS)
            path = next((path for path in paths if name not in included_by and self._is_file(path)), None)
            included_by.add(name)
            if path is not None:
                yield path
                included = re.findall(r"^include *= *(.*)", self._text(path), re.MULTILINE)
                yield from self._tuned_profiles(re.split(r"[\s,]+", " ".join(included)), included_by)

    def _words(self) -> dict[str, str]:
        candidates = (path for glob in catalogue.PRESENT for path in self._glob(glob))
        present = [path for path in candidates if self._find(path) or self._link(path) is not None]
        facts = {"present": " ".join(present)}
        for key, names in (("daemons", catalogue.DAEMONS), ("host daemons", catalogue.HOST_DAEMONS)):
            facts[key] = " ".join(map(posixpath.basename, self._processes(names)))
        if self._is_file(catalogue.IMEX_NODES):
            lines = [line.strip(" \t") for line in self._text(catalogue.IMEX_NODES).split("\n")]
            nodes = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
            facts |= {"imex nodes": str(len(nodes)), "imex list": redaction.checksum(nodes)}
        if self._is_file(catalogue.IMEX_CONFIG):
            values = re.findall(_IMEX_COMMANDS, self._text(catalogue.IMEX_CONFIG), re.MULTILINE)
            facts["imex commands"] = values[-1] if values else ""
        return facts

    def _drop_ins(self, folder: str, within: tuple[str | None, ...]) -> Iterator[str]:
        for path in self._glob(f"{folder}/*"):
            real = self._find(path)
            if real is not None and Path(real).is_dir():
                if real not in within:  # a link to an enclosing folder is a loop
                    yield from self._drop_ins(path, (*within, real))
            elif path.endswith(".conf"):
                yield path

    def _text(self, path: str) -> str:
        return (self._bytes(path) or b"").decode("utf-8", "replace")

    def _small(self, path: str) -> str | None:
        return _small(text) if (text := self._text(path)) else None

    def _noted(self, path: str) -> bytes | None:
        """Return what a file holds; one without the right to read it is noted."""
        try:
            return self._read(path)
        except PermissionError:
            self._unreadable.append(path)
            return None

    def _bytes(self, path: str) -> bytes | None:
        with suppress(PermissionError):
            return self._read(path)
        return None

    def _is_file(self, path: str) -> bool:
        real = self._find(path)
        return real is not None and Path(real).is_file()

    def _read(self, path: str) -> bytes | None:
        real = self._find(path)
        try:
            return None if real is None or not Path(real).is_file() else Path(real).read_bytes()
        except PermissionError:
            raise
        except OSError:
            return None  # sysfs refuses the read itself where a device has no answer

    def _link(self, path: str) -> str | None:
        parent = self._find(posixpath.dirname(path))
        entry = None if parent is None else Path(parent, posixpath.basename(path))
        return str(entry.readlink()) if entry is not None and entry.is_symlink() else None

    def _glob(self, pattern: str) -> list[str]:
        paths = [""]
        for part in pattern.removeprefix("/").split("/"):
            if not any(character in part for character in "*?["):
                paths = [f"{path}/{part}" for path in paths]
                continue
            paths = [
                f"{path}/{name}"
                for path in paths
                for name in self._names(path or "/")
                if fnmatchcase(name, part) and not name.startswith(".")
            ]
        return paths

    def _names(self, path: str) -> list[str]:
        real = self._find(path)
        with suppress(PermissionError, NotADirectoryError):
            return sorted(entry.name for entry in Path(real).iterdir()) if real else []
        return []

    def _find(self, path: str) -> str | None:
        """Return where `path` of the tree really lies, or None where it leads nowhere."""
        with suppress(LinkLoopError):
            return self._folder.find(path)
        return None


def _kubelet_flags(text: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {"--config": [], "--config-dir": [], "--root-dir": []}
    for flag, value in pairwise(re.split(r"[\s\"'=]+", text)):
        name = flag.replace("_", "-")  # as the kubelet reads its flags
        if name in values and value.startswith("/"):
            values[name].append(value)
    return values
