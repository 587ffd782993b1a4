"""How settings reach the kubelet: a drop-in and its flag, or for older ones a merge into the main file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.codec import ByName
from numaforge.lib.errors import PlanError
from numaforge.lib.kubelet_paths import CONFIG_PATH, DROP_IN_DIR, DROP_IN_NAME, ROOT_DIR
from numaforge.lib.reasons import Notice
from numaforge.machine.snapshot.catalogue import DISTRIBUTIONS
from numaforge.machine.topology.model import KubeletInstall, NodeTopology
from numaforge.roles.kubelet.existing import ExistingSettings, SettingPath, flatten_settings, merged_by_us

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile


@dataclass(frozen=True)
class KubeletPlan:
    """The kubelet's planned settings, and how they reach it.

    `settings` is the part of a KubeletConfiguration that numaforge manages, with Kubernetes' own field names.
    `delivery` is "drop-in" (a file in `config_dir`), "merge" (into `config_file`), or "none": nothing is set,
    and the `drop_in` of an earlier run is removed. `variable` is the variable in the unit's ExecStart that
    gets --config-dir in addition, at each start of the kubelet. Where ExecStart has none, `exec_start` is
    what others have written there with --config-dir added. Both are None where the flag is not added.
    `root_dir` holds the state files. `retired` has the shape of `settings`: what an earlier plan merged into
    `config_file` and this one no longer wants there; a value is removed if the file still has it. `binary` is
    the file whose version was `binary_version` when this was planned, so that it need not be run again for
    its version. `rehearsal` is "required", "when-possible" or "never": whether the kubelet tries the plan
    before it is applied. `arguments_file` is a distribution's file with the kubelet's arguments; `argument`
    is the line that numaforge adds to it, None where it adds none.
    """

    version: str
    unit: str
    delivery: str
    settings: ByName[Any]
    config_file: str
    config_dir: str | None
    drop_in: str | None
    exec_start: str | None
    root_dir: str
    variable: str | None = None
    retired: ByName[Any] = field(default_factory=dict)
    binary: str | None = None
    binary_version: str | None = None
    rehearsal: str = "when-possible"
    arguments_file: str | None = None
    argument: str | None = None

    @property
    def edited_file(self) -> str:
        """The host's own file that numaforge edits: the kubelet's arguments, else its main config file."""
        return self.arguments_file or self.config_file

    @property
    def adds_config_dir(self) -> bool:
        """Whether a drop-in of the unit adds --config-dir."""
        return self.exec_start is not None or self.variable is not None


KIND = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}

# --config-dir is beta, and works without an environment variable, from 1.30 on (KEP-3983).
_FIRST_MINOR_WITH_CONFIG_DIR = 30


def plan_delivery(
    topology: NodeTopology,
    version: KubeletVersion,
    profile: NodeProfile,
    existing: ExistingSettings,
    settings: dict[str, Any],
    previous: NodePlan | None,
    notices: list[Notice],
) -> KubeletPlan:
    """Return the plan that delivers `settings` to this kubelet; adds to `notices` what the admin should know.

    Raises PlanError where no file can reach the kubelet.
    """
    install = topology.kubelet or KubeletInstall(None, None, None, None, ())
    common = _common(version, install)
    earlier = previous.kubelet if previous else None
    if version.minor < _FIRST_MINOR_WITH_CONFIG_DIR:
        if topology.kubelet and install.config_file is None:
            raise PlanError(
                f"kubelet {version} has no --config-dir and runs without --config, so no file reaches it",
                where="kubelet",
                remedy=f"start it with --config={CONFIG_PATH}",
            )
        settings = _without_what_is_there(settings, existing, profile)
        return KubeletPlan(
            **common,
            delivery="merge",
            settings=settings,
            config_dir=None,
            drop_in=None,
            exec_start=None,
            retired=_retired(earlier, settings),
        )
    config_dir = install.config_dir or _new_folder(install)
    exec_start, variable = _added_flag(topology.kubelet, config_dir, notices)
    return KubeletPlan(
        **common,
        argument=_argument(install, config_dir),
        delivery="drop-in",
        settings=settings,
        config_dir=config_dir,
        drop_in=str(PurePosixPath(config_dir) / DROP_IN_NAME),
        exec_start=exec_start,
        variable=variable,
        retired=_retired(earlier, {}),
    )


def hand_back(
    topology: NodeTopology, version: KubeletVersion, previous: NodePlan | None, notices: list[Notice]
) -> KubeletPlan:
    """Return the plan under which the kubelet runs as it would without numaforge.

    The flag --config-dir stays where its folder has drop-ins of others; a notice then names them.
    """
    install = topology.kubelet or KubeletInstall(None, None, None, None, ())
    earlier = previous.kubelet if previous else None
    config_dir = install.config_dir or _new_folder(install)
    drop_in = str(PurePosixPath(config_dir) / DROP_IN_NAME)
    other_drop_ins = sorted(path for path in install.drop_ins if PurePosixPath(path).name != DROP_IN_NAME)
    flag_stays = install.config_dir_added and bool(other_drop_ins)
    exec_start, variable = None, None
    if flag_stays:
        exec_start, variable = _added_flag(install, config_dir, notices)
        names = ", ".join(other_drop_ins)
        text = f"{names} came from elsewhere, and the flag --config-dir has them read: it stays"
        notices.append(Notice("config-dir-kept", text))
    return KubeletPlan(
        **_common(version, install),
        argument=_argument(install, config_dir) if flag_stays else None,
        delivery="none",
        settings={},
        config_dir=install.config_dir,
        drop_in=earlier.drop_in if earlier and earlier.drop_in else drop_in,
        exec_start=exec_start,
        variable=variable,
        retired=_retired(earlier, {}),
    )


def _common(version: KubeletVersion, install: KubeletInstall) -> dict[str, Any]:
    return {
        "version": str(version),
        "unit": install.unit or "kubelet.service",
        "config_file": install.config_file or CONFIG_PATH,
        "root_dir": install.root_dir or ROOT_DIR,
        "arguments_file": install.arguments_file,
    }


def _new_folder(install: KubeletInstall) -> str:
    """Return the folder of drop-ins of a kubelet that has none yet."""
    return DISTRIBUTIONS[install.distribution].config_dir if install.distribution else DROP_IN_DIR


def _argument(install: KubeletInstall, config_dir: str) -> str | None:
    """Return the line to add to the kubelet's file of arguments; None without one, or if it has a folder."""
    added = install.config_dir is None or install.config_dir_added
    return f"--config-dir={config_dir}" if install.arguments_file and added else None


def _added_flag(
    install: KubeletInstall | None, config_dir: str, notices: list[Notice]
) -> tuple[str | None, str | None]:
    """Return the `exec_start` and the `variable` of a plan: what adds --config-dir to the arguments."""
    if install is None:
        argument = f"--config-dir={config_dir}"
        text = f"no kubelet is installed yet: run again when it is, so that it is started with {argument}"
        notices.append(Notice("config-dir-not-wired", text))
        return None, None
    if install.arguments_file or (install.config_dir is not None and not install.config_dir_added):
        return None, None
    if install.exec_start is None:
        raise PlanError(
            "the kubelet's unit has no readable ExecStart, so --config-dir cannot be added to it",
            where="kubelet",
            remedy=f"add --config-dir={config_dir} to the kubelet's arguments",
        )
    if variable := _last_variable(install.exec_start):
        return None, variable
    return f"{install.exec_start} --config-dir={config_dir}", None


def _last_variable(exec_start: str) -> str | None:
    """Return the last variable after the kubelet's name that systemd splits into words: `$NAME`, alone."""
    before, kubelet, arguments = exec_start.partition("/kubelet ")
    if not kubelet or {"'", '"'} & {*before}:
        return None
    variables = [word[1:] for word in arguments.split() if re.fullmatch(r"\$[A-Za-z_][A-Za-z0-9_]*", word)]
    return variables[-1] if variables else None


def _without_what_is_there(
    settings: Mapping[str, Any], existing: ExistingSettings, profile: NodeProfile
) -> dict[str, Any]:
    """Return `settings` without what the admin's file has: a later plan takes merged values for ours."""
    if existing.eviction_map is not None:
        asked = profile.memory.eviction_hard
        eviction = {signal: text for signal, text in settings["evictionHard"].items() if signal in asked}
        settings = {**settings, "evictionHard": eviction}
    to_merge = {
        path: value
        for path, value in flatten_settings(settings)
        if (setting := existing.get(*path)) is None or value not in (setting.value, str(setting.value))
    }
    return _nested(to_merge)


def _retired(earlier: KubeletPlan | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    planned = dict(flatten_settings(settings))
    return _nested({path: value for path, value in merged_by_us(earlier).items() if path not in planned})


def _nested(settings: Mapping[SettingPath, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in settings.items():
        if len(path) == 1:
            nested[path[0]] = value
        else:
            nested.setdefault(path[0], {})[path[1]] = value
    return nested


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `patch` merged in as RFC 7396 does: mappings by key, everything else replaced."""
    merged = dict(base)
    for key, value in patch.items():
        old = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = merge(old if isinstance(old, Mapping) else {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def without(base: Mapping[str, Any], retired: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` without the `retired` values that it still has; an emptied mapping is dropped, too."""
    remaining = dict(base)
    for key, value in retired.items():
        old = remaining.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            rest = without(old, value)
            if rest or rest == old:
                remaining[key] = rest
            else:
                del remaining[key]
        elif key in remaining and old == value:
            del remaining[key]
    return remaining
