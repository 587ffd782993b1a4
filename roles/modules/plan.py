"""Kernel modules: what is loaded, with which options, and what is kept out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from numaforge.lib.codec import ByName
from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.memory_mode import OPTION as MEMORY_MODE

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile


@dataclass(frozen=True)
class ModulesPlan:
    """Kernel modules to load, in that order, options by module, and modules that nothing may load."""

    load: tuple[str, ...] = ()
    options: ByName[tuple[str, ...]] = field(default_factory=dict)
    blocked: tuple[str, ...] = ()


# What ConnectX and BlueField need for verbs, management datagrams and connections, on InfiniBand and RoCE.
# issm is not a module: ib_umad provides it, except on ports with SM_DISABLED.
MLX5 = ("mlx5_ib", "ib_uverbs", "ib_umad", "rdma_ucm", "rdma_cm")
IMEX_CHANNEL = "NVreg_CreateImexChannel0=1"  # at each load; a channel made by mknod is lost at a boot
NETNS_OPTION = {"shared": "netns_mode=1", "exclusive": "netns_mode=0"}  # drivers/infiniband/core/device.c


def rdma_modules(profile: NodeProfile) -> tuple[str, ...]:
    """Return the modules that `rdma.host.modules` names."""
    modules_wish = profile.rdma.host.modules
    return MLX5 if modules_wish == "mlx5" else modules_wish


def plan_modules(profile: NodeProfile) -> Reasoned[ModulesPlan]:
    """Return the modules of `modules` and `rdma.host`, with the options that `gpu_memory` and `imex` imply.

    Raises PlanError where these sections contradict each other.
    """
    wish, rdma = profile.modules, profile.rdma.host
    load = tuple(dict.fromkeys((*wish.load, *rdma_modules(profile))))
    options = dict(wish.options)
    implied: list[tuple[str, str, str]] = []
    if rdma.netns:
        implied.append(("ib_core", NETNS_OPTION[rdma.netns], f"rdma.host.netns {rdma.netns}"))
    if mode := profile.gpu_memory:
        implied.append(("nvidia", f"{MEMORY_MODE}={mode}", f"gpu_memory {mode}"))
    if profile.imex.mode == "bare":
        implied.append(("nvidia", IMEX_CHANNEL, "imex.mode bare"))
    for module, option, asked in implied:
        options[module] = _with(options.get(module, ()), option, module, asked)
    refused = sorted({*wish.blocked} & {*load, *options})
    if refused:
        raise PlanError(
            f"blocks {', '.join(refused)}, which rdma.host needs",
            where="modules.blocked",
            remedy="take it out of modules.blocked, or leave rdma.host.modules and rdma.host.netns out",
        )
    plan = ModulesPlan(load, {name: options[name] for name in sorted(options) if options[name]}, wish.blocked)
    return Reasoned(plan, tuple(_decisions(plan, profile)), tuple(_notices(plan, profile)))


def netns_asked(profile: NodeProfile) -> tuple[str | None, str]:
    """Return the network namespaces' mode that a profile asks for, and the key: its own, or an option."""
    if profile.rdma.host.netns:
        return profile.rdma.host.netns, "rdma.host.netns"
    options = profile.modules.options.get("ib_core", ())
    asked = next((mode for mode, option in NETNS_OPTION.items() if option in options), None)
    return asked, "netns_mode of modules.options.ib_core"


def gpu_memory_asked(profile: NodeProfile) -> Literal["numa", "driver"] | None:
    """Return the mode of the GPUs' memory that a profile asks for, by its own key or by a module option."""
    if profile.gpu_memory:
        return profile.gpu_memory
    options = profile.modules.options.get("nvidia", ())
    if f"{MEMORY_MODE}=driver" in options:
        return "driver"
    return "numa" if f"{MEMORY_MODE}=numa" in options else None


def _with(options: tuple[str, ...], implied: str, module: str, wish: str) -> tuple[str, ...]:
    """Return a module's options with the one implied by another key of the profile."""
    name = implied.partition("=")[0]
    conflicting = [option for option in options if option.partition("=")[0] == name and option != implied]
    if conflicting:
        raise PlanError(
            f"has {conflicting[0]}, and {wish} is {implied}",
            where=f"modules.options.{module}",
            remedy="write one of them",
        )
    return tuple(dict.fromkeys((*options, implied)))


def _decisions(plan: ModulesPlan, profile: NodeProfile) -> Iterator[Decision]:
    rdma_names = rdma_modules(profile)
    for name in plan.load:
        reason = profile.choice("rdma.host.modules" if name in rdma_names else "modules.load")
        yield Decision(f"modules.load.{name}", "now and at boot", reason)
    for name, options in plan.options.items():
        yield Decision(f"modules.options.{name}", " ".join(options), _option_reason(name, profile))
    for name in plan.blocked:
        yield Decision(f"modules.blocked.{name}", "never loaded", profile.choice("modules.blocked"))


def _option_reason(module: str, profile: NodeProfile) -> str:
    is_given = module in profile.modules.options
    nvidia = "gpu_memory" if profile.gpu_memory else "imex.mode"
    implied_by = nvidia if module == "nvidia" else "rdma.host.netns"
    return profile.choice(f"modules.options.{module}" if is_given else implied_by)


def _notices(plan: ModulesPlan, profile: NodeProfile) -> Iterator[Notice]:
    reboot = profile.maintenance.reboot
    then = f"it is not written before a boot may prove it, and maintenance.reboot is {reboot}"
    if reboot == "allowed":
        then = "the node reboots for it"
    if late := sorted({*plan.options, *plan.blocked}):
        yield Notice(
            "modules-at-boot",
            f"changes of {', '.join(late)} take effect at the next boot: {then}; a module in the initial "
            "RAM disk obeys only once that is rebuilt (update-initramfs -u, dracut -f)",
        )
