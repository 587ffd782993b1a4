"""The kubelet as it is set up on the host: its unit, its flags with environment files resolved, its files."""

import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from numaforge.kubelet_minors.flags import flag_value
from numaforge.lib.given import parse_json
from numaforge.lib.kubelet_paths import DROP_IN_NAME, ROOT_DIR
from numaforge.lib.system_units import control_group
from numaforge.machine.snapshot import catalogue
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.holders import read_plugin_resources
from numaforge.machine.topology.model import KubeletInstall
from numaforge.machine.topology.units import Units, read_units

_VERSION = re.compile(r"(?:Kubernetes|k3s version) v([0-9]+\.[0-9]+\.[0-9]+)")
_SNAP_VERSION = re.compile(r"^version: ['\"]?v([0-9]+\.[0-9]+\.[0-9]+)", re.MULTILINE)
_NO_ANSWER = ("0", "124", "137", "143")
"""Exit codes after `timeout`, coreutils' or busybox', ended the command; 0 where even that failed."""


@dataclass
class _ServiceUnit:
    exec_start: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    environment_files: list[str] = field(default_factory=list)


def read_kubelet(snapshot: Snapshot) -> KubeletInstall | None:
    """Return the kubelet, or None where the host shows no trace of one."""
    units = read_units(snapshot)
    binary = snapshot.commands.get("kubelet binary") or None
    unit_texts = _unit_texts(snapshot.files)
    our_drop_in = unit_texts.pop(DROP_IN_NAME, "")
    unit = _read_unit(unit_texts.values())
    command_line = _running_command_line(snapshot, units)
    distribution = _distribution(snapshot, units, has_unit=bool(unit_texts))
    version = _version(snapshot, distribution, binary)
    problem = None if version else _problem(snapshot.commands, binary)
    if not unit_texts and command_line is None and {version, problem, binary, distribution} == {None}:
        return None
    brand = catalogue.DISTRIBUTIONS.get(distribution or "")
    logins = brand.logins if brand else catalogue.LOGINS
    login = next((path for path in logins if path in snapshot.commands.get("present", "").split()), None)
    own_unit = catalogue.UNIT if unit_texts else None
    unit_flags = _arguments(_expanded(unit, snapshot.files))
    arguments_file = arguments_text = None
    if brand:  # a kubelet.service that is left starts nothing
        names = map(posixpath.basename, brand.units)
        own_unit = next((name for name in names if name in units.main_pids), None)
        unit, our_drop_in = _ServiceUnit(), ""
        arguments_file = brand.arguments
        arguments_text = snapshot.files.get(arguments_file) if arguments_file else None
        unit_flags = _flags_of(brand, login, arguments_text or "") if own_unit else ()
    unit_config_dir = flag_value(unit_flags, "config-dir")
    added_flags = [word for word in our_drop_in.split() if word.startswith("--config-dir=")]
    if unit_config_dir is None:
        unit_flags = (*unit_flags, *added_flags)
    flags = unit_flags if command_line is None else _arguments(command_line)
    config_file = flag_value(flags, "config")
    config_dir = (added_flags and unit_config_dir) or flag_value(flags, "config-dir")
    line_of_ours = arguments_text is not None and brand is not None and config_dir == brand.config_dir
    root_dir = flag_value(flags, "root-dir") or ROOT_DIR
    below = (*catalogue.STATE_FILES, catalogue.DEVICE_CHECKPOINT)
    paths = {name: posixpath.join(root_dir, name) for name in below}
    below_root = {name: snapshot.files[path] for name, path in paths.items() if path in snapshot.files}
    return KubeletInstall(
        version=version,
        unit=own_unit,
        config_file=config_file,
        config_dir=config_dir,
        flags=flags,
        exec_start=unit.exec_start,
        config_dir_added=line_of_ours or (bool(added_flags) and unit_config_dir is None),
        arguments_file=arguments_file,
        arguments_text=arguments_text,
        config_text=snapshot.files.get(config_file) if config_file else None,
        drop_ins=_drop_ins_below(snapshot.files, config_dir) if config_dir else {},
        root_dir=root_dir,
        state_files={name: below_root[name] for name in catalogue.STATE_FILES if name in below_root},
        running=command_line is not None or bool(distribution and own_unit),
        binary=binary,
        problem=problem,
        distribution=distribution,
        login=login,
        plugin_resources=read_plugin_resources(below_root.get(catalogue.DEVICE_CHECKPOINT, "")),
    )


def _distribution(snapshot: Snapshot, units: Units, *, has_unit: bool) -> str | None:
    """Return the distribution that runs the kubelet: by its unit, else, without another, by its files."""
    present = frozenset(snapshot.commands.get("present", "").split())
    for name, distribution in catalogue.DISTRIBUTIONS.items():
        if any(posixpath.basename(path) in units.main_pids for path in distribution.units):
            return name
    for name, distribution in () if has_unit else catalogue.DISTRIBUTIONS.items():
        if present.intersection((*distribution.logins, *distribution.units)):
            return name
    return None


def _flags_of(brand: catalogue.Distribution, login: str | None, arguments: str) -> tuple[str, ...]:
    """Return a distribution's flags; those of an admin of k3s (`kubelet-arg`) stand in files with secrets.

    MicroK8s' kubelite reads its file so: no comments, no quotes, split at blanks.
    """
    if not brand.arguments:
        return (f"--config-dir={brand.config_dir}", *([f"--kubeconfig={login}"] if login else []))
    lines = (line.strip() for line in catalogue.expand_snap(arguments).splitlines())
    plain = (re.sub("[\"']", "", line) for line in lines if not line.startswith("#"))
    return tuple(word for line in plain for word in line.split())


def _version(snapshot: Snapshot, distribution: str | None, binary: str | None) -> str | None:
    """Return the version that the kubelet printed, else the last plan's for the same binary.

    kubelite has no --version: the kubelet of MicroK8s has the version of its snap.
    """
    if version_file := distribution and catalogue.DISTRIBUTIONS[distribution].version:
        version = _SNAP_VERSION.search(snapshot.files.get(version_file, ""))
        return version[1] if version else None
    if answer := _VERSION.search(snapshot.commands.get("kubelet --version", "")):
        return answer[1]
    try:
        earlier = parse_json(snapshot.files.get(catalogue.PLAN, "null"))
        planned_binary, version = earlier["kubelet"]["binary"], earlier["kubelet"]["binary_version"]
    except (ValueError, KeyError, TypeError):
        return None
    return version if binary and planned_binary == binary and isinstance(version, str) else None


def _problem(commands: Mapping[str, str], binary: str | None) -> str | None:
    """Return why the version of an installed kubelet is unknown; None where no kubelet is installed."""
    if refused := commands.get("kubelet refused"):
        return (
            f"{refused} was not run: it, or a folder above it, is not root's or can be written by others "
            "(chown root, chmod go-w)"
        )
    if (answer := commands.get("kubelet --version")) is not None:
        return f"kubelet --version says {answer[:60]!r}, which names no version"
    status, _, program = commands.get("kubelet failed", "").partition(" ")
    if not program:
        return f"{binary.split(' ', 3)[-1]} did not print its version" if binary else None
    if status in _NO_ANSWER:
        return f"{program} --version did not answer within 60 s, or was killed"
    return f"{program} --version ended with {status}"


def _arguments(words: list[str]) -> tuple[str, ...]:
    """Return the arguments after the kubelet's name; OpenShift's unit starts it through `kubenswrapper`."""
    programs = list(takewhile(lambda word: not word.startswith("-"), words))
    names = [index for index, word in enumerate(programs) if posixpath.basename(word) == "kubelet"]
    return tuple(words[names[0] + 1 if names else 1 :])


def _drop_ins_below(files: Mapping[str, str], folder: str) -> dict[str, str]:
    inside = folder.rstrip("/") + "/"
    paths = (path for path in files if path.startswith(inside) and path.endswith(".conf"))
    return {path: files[path] for path in sorted(paths)}


def _running_command_line(snapshot: Snapshot, units: Units) -> list[str] | None:
    """Return the words of the host's running kubelet, None without one.

    It is the main process of its unit; RKE2's is in the control group of RKE2's unit. Any other process of
    that name is a user's, or a container's.
    """
    groups = {units.groups[name] for name in catalogue.KUBELET_PARENTS if name in units.groups}
    children = (
        pid
        for pid in snapshot.commands.get("host daemons", "").split()
        if snapshot.files.get(f"/proc/{pid}/comm", "").strip() == "kubelet"
        and control_group(snapshot.files.get(f"/proc/{pid}/cgroup", "")) in groups
    )
    pid = units.main_pids.get(catalogue.UNIT) or next(children, None)
    text = snapshot.files.get(f"/proc/{pid}/cmdline", "").rstrip("\0")
    return text.split("\0") if text else None


def _unit_texts(files: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the unit and its drop-ins by name, in systemd's order."""
    paths = (f"{folder}/{catalogue.UNIT}" for folder in catalogue.UNIT_FOLDERS)
    main = next((files[path] for path in paths if path in files), None)
    if main is None:
        return {}
    drop_ins: dict[str, str] = {}
    for folder in reversed(catalogue.UNIT_FOLDERS):  # an earlier folder's file overrides a later one's
        for path, text in _drop_ins_below(files, f"{folder}/{catalogue.UNIT}.d").items():
            drop_ins[posixpath.basename(path)] = text
    return {catalogue.UNIT: main, **{name: drop_ins[name] for name in sorted(drop_ins)}}


def _read_unit(texts: Iterable[str]) -> _ServiceUnit:
    unit = _ServiceUnit()
    for text in texts:
        section = ""
        for line in re.sub(r"\\\n\s*", " ", text).splitlines():
            stripped = line.strip()
            if stripped.startswith("["):
                section = stripped
            key, equals, value = (part.strip() for part in stripped.partition("="))
            if section != "[Service]" or not equals or stripped.startswith(("#", ";")):
                continue
            if key == "ExecStart":
                unit.exec_start = value or None
            elif key == "EnvironmentFile":
                unit.environment_files = [*unit.environment_files, value.removeprefix("-")] if value else []
            elif key == "Environment":
                pairs = (word.partition("=") for word in _shell_words(value))
                more = {name: text for name, equals, text in pairs if equals}
                unit.environment = unit.environment | more if value else {}
    return unit


def _shell_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an unbalanced quote: systemd ignores the line, too
        return []


def _expanded(unit: _ServiceUnit, files: Mapping[str, str]) -> list[str]:
    environment = dict(unit.environment)
    for path in unit.environment_files:
        for line in re.sub(r"\\\n", "", files.get(path, "")).splitlines():
            name, equals, value = line.strip().partition("=")
            if equals and not name.startswith(("#", ";")):
                environment[name] = " ".join(_shell_words(value))
    words: list[str] = []
    for word in _shell_words((unit.exec_start or "").lstrip("-@:+!")):
        variable = re.fullmatch(r"\$(\w+)", word)
        if variable:  # a word that is only $NAME splits into the words of its value
            words += _shell_words(environment.get(variable[1], ""))
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda match: environment.get(match[1], ""), word))
    return words
