"""The kubelet's settings from its files and flags, without what an earlier plan of ours put there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from numaforge.kubelet.config.loading import Configuration, Origin, load_installed
from numaforge.kubelet_minors.tables import EVICTION_HARD
from numaforge.kubelet_minors.values.goyaml import YamlError, read
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.errors import KubeletConfigError, PlanError
from numaforge.lib.kubelet_paths import DROP_IN_NAME
from numaforge.machine.topology.model import KubeletInstall

if TYPE_CHECKING:
    from numaforge.roles.kubelet.plan import KubeletPlan

SettingPath = tuple[str, ...]

# The fields that a plan sets, or needs for its arithmetic.
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
_LISTS = ("reservedMemory", "registerWithTaints")


class Setting(NamedTuple):
    """A value that is not ours: `place` is a file or a flag; no file overrides a flag."""

    value: Any
    place: str
    from_flag: bool = False


@dataclass(frozen=True)
class ExistingSettings:
    """The kubelet's settings that are not ours, by path: ("kubeReserved", "memory").

    `effective` is the kubelet's configuration without ours, defaults filled in; `settings` is the part that
    files and flags set. `eviction_map` is the main file or the flag whose evictionHard replaces the kubelet's
    defaults, None where none does. `override`: the profile overrides files that contradict it.
    """

    settings: Mapping[SettingPath, Setting] = field(default_factory=dict)
    effective: Mapping[str, Any] = field(default_factory=dict)
    eviction_map: str | None = None
    override: bool = False

    def get(self, *path: str) -> Setting | None:
        return self.settings.get(path)

    def settle(
        self,
        path: SettingPath,
        planned: object | None,
        *,
        subject: str,
        same: Callable[[Any], bool] | None = None,
        shown: str | None = None,
    ) -> Setting | None:
        """Return the setting to keep, or None where `planned` or a default applies.

        `same`: whether an existing value means the same as `planned`; `shown` is `planned` in words. Raises
        PlanError where `planned` contradicts a flag, or a file that it may not override.
        """
        setting = self.get(*path)
        whole_map = self.get(path[0])
        text = shown or str(planned)
        if setting is None and whole_map is not None and planned is not None:
            raise _refused_by_flag(whole_map, text, subject)
        if setting is None or planned is None:
            return setting
        if same(setting.value) if same else str(setting.value) == str(planned):
            return None
        if setting.from_flag:
            raise _refused_by_flag(setting, text, subject)
        if self.override:
            return None
        raise PlanError(
            f"the profile says {text}, {setting.place} says {'.'.join(path)}: {setting.value}",
            where=subject,
            remedy=f"remove the key from that file, leave {subject} out of the profile to keep the value "
            "that is there, or set kubelet.on_conflict: override",
        )

    def below(self, name: str) -> dict[str, Setting]:
        """Return the entries of one mapping, by key, sorted."""
        entries = {
            path[1]: setting for path, setting in self.settings.items() if path[0] == name and path[1:]
        }
        return dict(sorted(entries.items()))


def read_existing(
    install: KubeletInstall | None, previous: KubeletPlan | None, version: KubeletVersion, *, override: bool
) -> ExistingSettings:
    """Return the kubelet's settings, as it loads them from its main file, its drop-ins and its flags.

    Our own drop-in is left out, and so are the unchanged values that `previous` merged into the main file.
    Raises PlanError, with the kubelet's message, for what this version could not load.
    """
    if install is None:
        return ExistingSettings(effective={"evictionHard": EVICTION_HARD}, override=override)
    without_ours = replace(
        install,
        config_text=_less(install.config_text, merged_by_us(previous)),
        drop_ins={
            path: text for path, text in install.drop_ins.items() if PurePosixPath(path).name != DROP_IN_NAME
        },
    )
    try:
        configuration = load_installed(without_ours, version)
    except KubeletConfigError as error:
        raise PlanError(
            f"kubelet {version} cannot load its configuration: {error.message}",
            where=error.where,
            remedy=error.remedy,
        ) from error
    settings = dict(_relevant_settings(configuration))
    eviction_map = settings.get(("evictionHard",))
    in_main = configuration.places.main if "evictionHard" in configuration.main.settings else None
    place = eviction_map.place if eviction_map else in_main
    return ExistingSettings(settings, configuration.settings, place, override)


def _relevant_settings(configuration: Configuration) -> Iterator[tuple[SettingPath, Setting]]:
    """Yield every setting that a plan manages or needs, where a file or a flag sets it."""
    names = {name: text for name, text in configuration.settings.items() if text is not None}
    for name in (*_SCALARS, *_LISTS):
        if name in names and (origin := configuration.origin(name)):
            yield (name,), _setting(names[name], origin)
    for name in _MAPPINGS:
        entries = names.get(name) or {}
        map_origin = configuration.origin(name)
        if name != "featureGates" and map_origin and map_origin.is_flag:
            # A flag replaces the whole map, except feature gates, which the kubelet merges gate by gate.
            yield (name,), _setting(",".join(f"{key}={value}" for key, value in entries.items()), map_origin)
        for key, value in entries.items():
            if origin := configuration.origin(name, key):
                yield (name, key), _setting(value, origin)


def _setting(value: Any, origin: Origin) -> Setting:
    return Setting(value, f"flag {origin.place}" if origin.is_flag else origin.place, origin.is_flag)


def _less(text: str | None, our_values: Mapping[SettingPath, Any]) -> str | None:
    """Return a main file without our values that it still has; invalid YAML is returned unchanged."""
    try:
        document = read(text).data if text and our_values else None
    except YamlError:
        return text
    if not isinstance(document, dict):
        return text
    remaining = dict(document)
    for path in [
        path for path, value in flatten_settings(document) if path in our_values and our_values[path] == value
    ]:
        name, *key = path
        entries = (
            {entry: value for entry, value in remaining[name].items() if entry not in key} if key else None
        )
        if entries:
            remaining[name] = entries
        else:
            del remaining[name]
    return json.dumps(remaining)


def _refused_by_flag(setting: Setting, text: str, subject: str) -> PlanError:
    return PlanError(
        f"the profile says {text}, the kubelet's {setting.place} says {setting.value}, and a flag wins "
        "over every file",
        where=subject,
        remedy=f"take the {setting.place} from the kubelet's arguments, or leave {subject} out of the "
        "profile",
    )


def merged_by_us(previous: KubeletPlan | None) -> dict[SettingPath, Any]:
    """Return the values that an earlier plan merged into the admin's file, by path."""
    if previous is None:
        return {}
    merged = dict(flatten_settings(previous.retired))
    if previous.delivery == "merge":
        merged.update(flatten_settings(previous.settings))
    return merged


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
