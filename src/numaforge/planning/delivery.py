"""How settings reach the kubelet: a drop-in and its flag, or a merge into the main file of an older one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from numaforge.errors import PlanError
from numaforge.kubelet.minors.versions import KubeletVersion
from numaforge.planning.existing import DROP_IN_NAME, ExistingSettings, SettingPath, flatten_settings
from numaforge.planning.model import KubeletPlan, NodePlan, Notice
from numaforge.profile import NodeProfile
from numaforge.topology.model import KubeletInstall, NodeTopology

DEFAULT_CONFIG_FILE = "/var/lib/kubelet/config.yaml"
DEFAULT_CONFIG_DIR = "/etc/kubernetes/kubelet.conf.d"
DEFAULT_ROOT_DIR = "/var/lib/kubelet"

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
    """Return the plan with which `settings` reach this kubelet; what the admin should know goes to `notices`.

    Raises PlanError where no file can reach it.
    """
    install = topology.kubelet or KubeletInstall(None, None, None, None, ())
    common: dict[str, Any] = {
        "version": str(version),
        "unit": install.unit or "kubelet.service",
        "config_file": install.config_file or DEFAULT_CONFIG_FILE,
        "root_dir": install.root_dir or DEFAULT_ROOT_DIR,
        "binary": install.binary,
        "binary_version": install.version if install.binary else None,
    }
    earlier = previous.kubelet if previous else None
    if version.minor < _FIRST_MINOR_WITH_CONFIG_DIR:
        if topology.kubelet and install.config_file is None:
            raise PlanError(
                f"kubelet {version} has no --config-dir and runs without --config, so no file reaches it",
                where="kubelet",
                remedy=f"start it with --config={DEFAULT_CONFIG_FILE}",
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
    config_dir = install.config_dir or DEFAULT_CONFIG_DIR
    return KubeletPlan(
        **common,
        delivery="drop-in",
        settings=settings,
        config_dir=config_dir,
        drop_in=str(PurePosixPath(config_dir) / DROP_IN_NAME),
        exec_start=_exec_start(topology.kubelet, config_dir, earlier, notices),
        retired=_retired(earlier, {}),
    )


def _exec_start(
    install: KubeletInstall | None, config_dir: str, earlier: KubeletPlan | None, notices: list[Notice]
) -> str | None:
    """Return the unit's ExecStart with --config-dir, or None where the admin has put the flag there."""
    if install is None:
        notices.append(
            Notice(
                "config-dir-not-wired",
                f"no kubelet is installed yet: run again when it is, so that it is started with "
                f"--config-dir={config_dir}",
            )
        )
        return None
    if install.config_dir is not None:
        ours = (
            earlier is not None
            and earlier.exec_start is not None
            and earlier.exec_start == install.exec_start
        )
        return install.exec_start if ours else None
    if install.exec_start is None:
        raise PlanError(
            "the kubelet's unit has no readable ExecStart, so --config-dir cannot be added to it",
            where="kubelet",
            remedy=f"add --config-dir={config_dir} to the kubelet's arguments",
        )
    return f"{install.exec_start} --config-dir={config_dir}"


def _without_what_is_there(
    settings: Mapping[str, Any], existing: ExistingSettings, profile: NodeProfile
) -> dict[str, Any]:
    """Leave out what the admin's file says already: what is merged is taken for ours the next time."""
    if existing.eviction_map is not None:
        wanted = {*profile.memory.eviction_hard}
        eviction = {signal: text for signal, text in settings["evictionHard"].items() if signal in wanted}
        settings = {**settings, "evictionHard": eviction}
    ours = {
        path: value
        for path, value in flatten_settings(settings)
        if (held := existing.get(*path)) is None or not _same_value(held.value, value)
    }
    return _nested(ours)


def _same_value(held: object, wanted: object) -> bool:
    return held == wanted or (isinstance(wanted, str) and str(held) == wanted)


def _retired(earlier: KubeletPlan | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    if earlier is None:
        return {}
    merged = dict(flatten_settings(earlier.retired))
    if earlier.delivery == "merge":
        merged.update(flatten_settings(earlier.settings))
    wanted = dict(flatten_settings(settings))
    return _nested({path: value for path, value in merged.items() if path not in wanted})


def _nested(settings: Mapping[SettingPath, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in settings.items():
        if len(path) == 1:
            nested[path[0]] = value
        else:
            nested.setdefault(path[0], {})[path[1]] = value
    return nested
