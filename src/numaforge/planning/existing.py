"""What the kubelet is told already, by its files and flags, less what an earlier plan of ours put there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import yaml

from numaforge.errors import PlanError
from numaforge.planning.model import KubeletPlan
from numaforge.topology.model import KubeletInstall

DROP_IN_NAME = "90-numaforge.conf"

SettingPath = tuple[str, ...]

# The fields that a plan sets, or has to know to get its sums right.
_SCALARS = (
    "reservedSystemCPUs",
    "cpuManagerPolicy",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "memoryManagerPolicy",
    "systemReservedCgroup",
    "kubeReservedCgroup",
    "mergeDefaultEvictionSettings",
    "failSwapOn",
)
_MAPPINGS = (
    "cpuManagerPolicyOptions",
    "topologyManagerPolicyOptions",
    "kubeReserved",
    "systemReserved",
    "evictionHard",
    "featureGates",
)
_LISTS = ("reservedMemory",)

_FLAGS = {
    "reserved-cpus": "reservedSystemCPUs",
    "cpu-manager-policy": "cpuManagerPolicy",
    "cpu-manager-policy-options": "cpuManagerPolicyOptions",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
    "topology-manager-policy-options": "topologyManagerPolicyOptions",
    "memory-manager-policy": "memoryManagerPolicy",
    "reserved-memory": "reservedMemory",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
    "eviction-hard": "evictionHard",
    "feature-gates": "featureGates",
    "system-reserved-cgroup": "systemReservedCgroup",
    "kube-reserved-cgroup": "kubeReservedCgroup",
    "fail-swap-on": "failSwapOn",
}


@dataclass(frozen=True)
class Setting:
    """A value that somebody else set: `place` is a file or a flag; a flag cannot be overridden by a file."""

    value: Any
    place: str
    from_flag: bool = False


@dataclass(frozen=True)
class ExistingSettings:
    """The kubelet's settings that are not ours, by path: ("kubeReserved", "memory").

    `eviction_map` tells where the kubelet finds an evictionHard map in its main file, None where it has none
    there and so uses its defaults.
    """

    settings: Mapping[SettingPath, Setting] = field(default_factory=dict)
    eviction_map: str | None = None

    def get(self, *path: str) -> Setting | None:
        return self.settings.get(path)

    def settle(
        self,
        path: SettingPath,
        wanted: object | None,
        *,
        subject: str,
        override: bool,
        same: Callable[[Any], bool] | None = None,
        shown: str | None = None,
    ) -> Setting | None:
        """Return the setting to keep, or None where `wanted`, or a default, is to stand.

        `same` tells whether a value that is there already means the same as `wanted`, `shown` is `wanted` in
        words. Raises PlanError where the wish contradicts a flag, or a file that it may not override.
        """
        held = self.get(*path)
        whole_map = self.get(path[0])
        said = shown or str(wanted)
        if held is None and whole_map is not None and wanted is not None:
            raise _refused_by_flag(whole_map, said, subject)
        if held is None or wanted is None:
            return held
        if same(held.value) if same else str(held.value) == str(wanted):
            return None
        if held.from_flag:
            raise _refused_by_flag(held, said, subject)
        if override:
            return None
        raise PlanError(
            f"the profile says {said}, {held.place} says {'.'.join(path)}: {held.value}",
            where=subject,
            remedy=f"remove the key from that file, leave {subject} out of the profile to keep the value "
            "that is "
            "there, or set kubelet.on_conflict: override",
        )

    def below(self, name: str) -> dict[str, Setting]:
        """Return the entries of one mapping, by key, sorted."""
        entries = {
            path[1]: setting for path, setting in self.settings.items() if path[0] == name and path[1:]
        }
        return dict(sorted(entries.items()))


def read_existing(install: KubeletInstall | None, previous: KubeletPlan | None) -> ExistingSettings:
    """Return what the main file, the drop-ins and the flags say, the strongest last word kept.

    Our own drop-in is left out, and so is what `previous` merged into the main file as long as it is
    unchanged. Raises PlanError for a file that is not a YAML mapping.
    """
    if install is None:
        return ExistingSettings()
    settings: dict[SettingPath, Setting] = {}
    main_file = install.config_file or "kubelet configuration"
    main = _parse(install.config_text, main_file)
    ours = _merged_by_us(previous)
    for path, value in flatten_settings(main):
        if not (path in ours and ours[path] == value):
            settings[path] = Setting(value, main_file)
    has_map = isinstance(main.get("evictionHard"), Mapping) and (
        any(path[0] == "evictionHard" for path in settings) or not main["evictionHard"]
    )
    for file, text in sorted(install.drop_ins.items()):
        if PurePosixPath(file).name != DROP_IN_NAME:
            found = flatten_settings(_parse(text, file))
            settings.update({path: Setting(value, file) for path, value in found})
    for flag, value in _flag_values(install.flags):
        _apply_flag(settings, flag, value)
    whole = settings.get(("evictionHard",))
    return ExistingSettings(settings, whole.place if whole else main_file if has_map else None)


def _refused_by_flag(held: Setting, said: str, subject: str) -> PlanError:
    return PlanError(
        f"the profile says {said}, the kubelet's {held.place} says {held.value}, and a flag wins over every "
        "file",
        where=subject,
        remedy=f"take the {held.place} from the kubelet's arguments, or leave {subject} out of the profile",
    )


def _merged_by_us(previous: KubeletPlan | None) -> dict[SettingPath, Any]:
    if previous is None:
        return {}
    merged = dict(flatten_settings(previous.retired))
    if previous.delivery == "merge":
        merged.update(flatten_settings(previous.settings))
    return merged


def _parse(text: str | None, place: str) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(text or "")
    except yaml.YAMLError as error:
        raise PlanError(
            f"the kubelet's configuration is not valid YAML: {error}",
            where=place,
            remedy="repair the file first",
        ) from error
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise PlanError(
            "the kubelet's configuration is not a mapping", where=place, remedy="repair the file first"
        )
    return document


def flatten_settings(document: Mapping[str, Any]) -> Iterator[tuple[SettingPath, Any]]:
    """Yield every setting that a plan manages or needs, by path; kubeadm's empty values are not settings."""
    for name in (*_SCALARS, *_LISTS):
        value = document.get(name)
        if value is not None and value not in ("", []):
            yield (name,), value
    for name in _MAPPINGS:
        entries = document.get(name)
        for key, value in (entries if isinstance(entries, Mapping) else {}).items():
            if value is not None and value != "":
                yield (name, str(key)), value


def _flag_values(flags: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (flag, value) for the flags that have a field, in order, from `--a=b` and `--a b`."""
    for index, argument in enumerate(flags):
        name, equals, value = argument.lstrip("-").partition("=")
        if not argument.startswith("-") or name not in _FLAGS:
            continue
        follower = flags[index + 1] if index + 1 < len(flags) else ""
        if equals:
            yield name, value
        elif _FLAGS[name] == "failSwapOn":
            yield name, "true"
        elif not follower.startswith("-"):
            yield name, follower


def _apply_flag(settings: dict[SettingPath, Setting], flag: str, text: str) -> None:
    name, place = _FLAGS[flag], f"flag --{flag}"
    if name == "reservedMemory":
        settings[(name,)] = Setting(_reserved_memory_of(text), place, from_flag=True)
    elif name == "failSwapOn":
        settings[(name,)] = Setting(text.lower() in ("1", "t", "true"), place, from_flag=True)
    elif name in _MAPPINGS:
        # A flag replaces the whole map, except feature gates, which the kubelet merges gate by gate.
        if name != "featureGates":
            for path in [path for path in settings if path[0] == name]:
                del settings[path]
            settings[(name,)] = Setting(text, place, from_flag=True)
        separator = "<" if name == "evictionHard" else "="
        for entry in filter(None, text.split(",")):
            key, _, value = entry.partition(separator)
            settings[(name, key.strip())] = Setting(value.strip(), place, from_flag=True)
    elif text:
        settings[(name,)] = Setting(text, place, from_flag=True)


def _reserved_memory_of(text: str) -> list[dict[str, Any]]:
    """Return the config file's form of `0:memory=1Gi;1:memory=1Gi`."""
    entries = []
    for part in filter(None, text.split(";")):
        node, _, limits = part.partition(":")
        pairs = (limit.partition("=") for limit in filter(None, limits.split(",")))
        entries.append(
            {
                "numaNode": int(node) if node.strip().isdigit() else node,
                "limits": {key.strip(): value.strip() for key, _, value in pairs},
            }
        )
    return entries
