"""Rules about containerd's configuration as containerd itself prints it. It is never written."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from numaforge.findings.engine import Applicability, Seen, within
from numaforge.findings.rules import machine_rule
from numaforge.findings.userland import scope
from numaforge.machine.topology.model import Containerd, NodeTopology

_NEWEST_VERSION = {1: 2, 2: 3}  # of the configuration, by containerd's major
_FIRST_MINOR_ASKING_THE_RUNTIME = (
    34  # KubeletCgroupDriverFromCRI is GA (KEP-4033); containerd answers from 2.0 on
)


def _major(containerd: Containerd) -> int | None:
    return int(containerd.version.partition(".")[0]) if containerd.version else None


def _not_imported(machine: NodeTopology) -> Iterator[Seen]:
    containerd = scope.runtime(machine)
    if containerd.imports is None:
        yield Seen(unknown="containerd did not report its imports")
        return
    for fragment in containerd.fragments:
        if not any(fnmatchcase(fragment, pattern) for pattern in containerd.imports):
            yield Seen(f"no entry of `imports` names it: {', '.join(containerd.imports) or 'none'}", fragment)


@within(scope.with_containerd)
def _with_fragments(machine: NodeTopology) -> Applicability | None:
    none = Applicability(False, "no fragment in /etc/containerd/conf.d")
    return None if scope.runtime(machine).fragments else none


def _versions_differ(machine: NodeTopology) -> Iterator[Seen]:
    versions = scope.runtime(machine).versions
    if len({*versions.values()}) > 1:
        versions_text = ", ".join(
            f"{path} is of version {version}" for path, version in sorted(versions.items())
        )
        yield Seen(versions_text)


def _version_unfit(machine: NodeTopology) -> Iterator[Seen]:
    containerd = scope.runtime(machine)
    newest = _NEWEST_VERSION.get(_major(containerd) or 0)
    if newest is None:
        yield Seen(unknown="containerd's own version is not known")
        return
    for path, version in sorted(containerd.versions.items()):
        if version is not None and version > newest:
            yield Seen(f"version {version}, and containerd {containerd.version} reads up to {newest}", path)


def _version_old(machine: NodeTopology) -> Iterator[Seen]:
    containerd = scope.runtime(machine)
    newest = _NEWEST_VERSION.get(_major(containerd) or 0)
    for path, version in sorted(containerd.versions.items()):
        if newest is not None and version is not None and version < newest:
            yield Seen(
                f"version {version}, which containerd {containerd.version} converts at every start", path
            )


@within(scope.with_containerd)
def _cgroup_driver(machine: NodeTopology) -> Applicability:
    settings, minor = scope.kubelet_settings(machine), scope.kubelet_minor(machine)
    asks_runtime = minor is not None and minor.minor >= _FIRST_MINOR_ASKING_THE_RUNTIME
    if asks_runtime and (_major(scope.runtime(machine)) or 0) >= 2:
        return Applicability(False, "the kubelet takes containerd's cgroup driver")
    if settings is None:
        return Applicability(None, "the kubelet's cgroupDriver is not known")
    return Applicability(True, f"the kubelet's cgroupDriver is {settings.get('cgroupDriver')}")


def _other_driver(machine: NodeTopology) -> Iterator[Seen]:
    settings = scope.kubelet_settings(machine) or {}
    systemd = settings.get("cgroupDriver") == "systemd"
    runtimes = scope.runtime(machine).runtimes
    if runtimes is None:
        yield Seen(unknown="containerd names no runtime handler")
    for name, uses_systemd in (runtimes or {}).items():
        if uses_systemd is None:
            yield Seen(unknown=f"the runtime handler {name} does not say SystemdCgroup")
        elif uses_systemd is not systemd:
            mismatch = f"SystemdCgroup is {str(uses_systemd).lower()}, the kubelet's cgroupDriver "
            yield Seen(f"{mismatch}{settings.get('cgroupDriver')}", f"runtime handler {name}")


def _cdi_off(machine: NodeTopology) -> Iterator[Seen]:
    containerd = scope.runtime(machine)
    if containerd.cdi is None:
        yield Seen(unknown="this containerd reports nothing about CDI")
    elif not containerd.cdi:
        yield Seen("enable_cdi is false")
    elif containerd.cdi_folders is not None and not {"/etc/cdi", "/var/run/cdi", "/run/cdi"} & {
        *containerd.cdi_folders
    }:
        yield Seen(
            f"cdi_spec_dirs is {list(containerd.cdi_folders)}, where no driver puts its specifications"
        )


def _nri_off(machine: NodeTopology) -> Iterator[Seen]:
    nri = scope.runtime(machine).nri
    if nri is None:
        yield Seen(unknown="this containerd reports nothing about NRI")
    elif not nri:
        yield Seen("the plugin io.containerd.nri.v1.nri is disabled")


def _no_way_to_gpus(machine: NodeTopology) -> Iterator[Seen]:
    containerd = scope.runtime(machine)
    if containerd.runtimes is None:
        yield Seen(unknown="containerd names no runtime handler")
    elif "nvidia" not in containerd.runtimes and containerd.cdi is not True:
        yield Seen("there is no runtime handler nvidia, and CDI is not on")


def _not_by_default(machine: NodeTopology) -> Iterator[Seen]:
    containerd = scope.runtime(machine)
    if (
        "nvidia" in (containerd.runtimes or {})
        and containerd.cdi is not True
        and containerd.default_runtime != "nvidia"
    ):
        yield Seen(f"default_runtime_name is {containerd.default_runtime}")


def _no_default(machine: NodeTopology) -> Iterator[Seen]:
    containerd = scope.runtime(machine)
    if containerd.runtimes is None or not containerd.default_runtime:
        yield Seen(unknown="containerd names no runtime handler")
    elif containerd.default_runtime not in containerd.runtimes:
        handlers = ", ".join(containerd.runtimes)
        yield Seen(f"default_runtime_name is {containerd.default_runtime}, and there is {handlers}")


def _loose_sandbox(machine: NodeTopology) -> Iterator[Seen]:
    image = scope.runtime(machine).sandbox_image
    if image is None:
        yield Seen(unknown="containerd names no sandbox image")
    elif "@sha256:" not in image and image.rpartition("/")[2].partition(":")[2] in ("", "latest"):
        yield Seen(f"{image} has no version")


RULES = (
    machine_rule("NH301", _with_fragments, _not_imported),
    machine_rule("NH302", scope.with_containerd, _versions_differ),
    machine_rule("NH303", scope.with_containerd, _version_unfit),
    machine_rule("NH304", scope.with_containerd, _version_old),
    machine_rule("NH305", _cgroup_driver, _other_driver),
    machine_rule("NH306", scope.with_containerd_and_nvidia, _cdi_off),
    machine_rule("NH307", scope.with_containerd, _nri_off),
    machine_rule("NH308", scope.with_containerd_and_nvidia, _no_way_to_gpus),
    machine_rule("NH309", scope.with_containerd_and_nvidia, _not_by_default),
    machine_rule("NH310", scope.with_containerd, _no_default),
    machine_rule("NH311", scope.with_containerd, _loose_sandbox),
)
