"""Rules about NVIDIA's GPUs themselves: memory, what waits for a reset, containers, several models."""

import re
from collections.abc import Callable, Iterator, Mapping

from numaforge.findings import scope
from numaforge.findings.engine import Applicability, Seen, within
from numaforge.findings.gpus.nvidia_boards import has_hbm
from numaforge.findings.rules import machine_rule
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.gpu_models import model_of
from numaforge.machine.topology.model import Gpu, NodeTopology

_CGROUPFS = re.compile(r"^cgroupDriver:\s*[\"']?cgroupfs\b", re.MULTILINE)


def _real_with_hbm(gpu: Gpu) -> bool:
    return has_hbm(gpu) and scope.not_vgpu(gpu)


_ecc_off = scope.one_value(
    _real_with_hbm,
    lambda gpu: gpu.ecc and gpu.ecc.enabled,
    lambda enabled: None if enabled else "ECC is off",
    unknown="the ECC mode is unknown",
)


def _has_ecc(gpu: Gpu) -> bool:
    return gpu.ecc is not None and scope.not_vgpu(gpu)


def _changes(what: str, current: str | None, then: str | None) -> str | None:
    """Return how a mode changes at a reset, "" where it does not; None where one of the two is unknown."""
    if current is None or then is None:
        return None
    return "" if current == then else f"{what} is {current}, and {then} after a reset"


def _ecc_changes(gpu: Gpu) -> str | None:
    words = {True: "on", False: "off", None: None}
    return _changes("ECC", words[gpu.ecc.enabled], words[gpu.ecc.pending]) if gpu.ecc else None


_ecc_pending = scope.one_value(
    _has_ecc, _ecc_changes, lambda change: change or None, unknown="the ECC mode after a reset is unknown"
)


def _ever(gpu: Gpu) -> int | None:
    """Return the errors of earlier times: those since the driver was loaded are counted in both."""
    if gpu.ecc is None or gpu.ecc.uncorrected_aggregate is None:
        return None
    return max(0, gpu.ecc.uncorrected_aggregate - (gpu.ecc.uncorrected_volatile or 0))


def _uncorrected(when: str) -> Callable[[int], str | None]:
    def wrong(count: int) -> str | None:
        return f"{counted(count, 'uncorrected error')} {when}" if count else None

    return wrong


def _counts_errors(gpu: Gpu) -> bool:
    return _has_ecc(gpu) and gpu.ecc is not None and gpu.ecc.enabled is not False


_with_ecc_on = scope.with_answer(_counts_errors, none="no GPU has ECC on")

_errors_now = scope.one_value(
    _counts_errors,
    lambda gpu: gpu.ecc.uncorrected_volatile if gpu.ecc else None,
    _uncorrected("of its memory since the driver was loaded"),
    unknown="uncorrected errors are unknown",
)

_errors_before = scope.one_value(
    _counts_errors,
    _ever,
    _uncorrected("of its memory in earlier times"),
    unknown="uncorrected errors are unknown",
)


def _remaps(gpu: Gpu) -> bool:
    return gpu.remapped_rows is not None


_with_remapping = scope.with_answer(_remaps, none="no GPU remaps rows")

_remap_pending = scope.one_value(
    _remaps,
    lambda gpu: gpu.remapped_rows and gpu.remapped_rows.pending,
    lambda pending: "a row of its memory waits to be remapped" if pending else None,
    unknown="pending remaps are unknown",
)

_remap_failed = scope.one_value(
    _remaps,
    lambda gpu: gpu.remapped_rows and gpu.remapped_rows.failed,
    lambda failed: "a row of its memory could not be remapped" if failed else None,
    unknown="failed remaps are unknown",
)

_recovery = scope.one_value(
    scope.not_vgpu,
    lambda gpu: gpu.recovery_action,
    lambda action: None if action == "none" else f"the driver asks for: {action}",
    unknown="the driver does not report whether it needs a reset",
)


def _mig_capable(gpu: Gpu) -> bool:
    return bool(gpu.mig_capable) and scope.not_vgpu(gpu)


_mig_pending = scope.one_value(
    _mig_capable,
    lambda gpu: _changes("MIG mode", gpu.mig_mode, gpu.mig_pending),
    lambda change: change or None,
    unknown="the MIG mode after a reset is unknown",
)


def _systemd_containers(machine: NodeTopology) -> Applicability:
    if not scope.driven(machine):
        return Applicability(False, scope.NO_DRIVER)
    if machine.kubelet is None:
        return Applicability(False, "no kubelet starts containers here")
    if _CGROUPFS.search(machine.kubelet.config_text or ""):
        return Applicability(False, "the kubelet does not use systemd's control groups")
    return Applicability(True, "systemd holds the containers' control groups")


def _lost_at_reload(machine: NodeTopology) -> Iterator[Seen]:
    install = scope.nvidia_install(machine)
    if install.char_links is None or install.cdi_specs is None:
        yield Seen(unknown="/dev/char was not captured")
    elif not install.char_links and not install.cdi_specs:
        yield Seen("/dev/char has no links to NVIDIA's devices, and there is no CDI specification")


@within(scope.with_driver)
def _several(machine: NodeTopology) -> Applicability:
    count = len(scope.driven(machine))
    return Applicability(count > 1, f"{count} GPUs" if count > 1 else "one GPU")


def _odd_ones(machine: NodeTopology) -> Iterator[Seen]:
    """Yield the GPUs of rarer models; in a tie, the models."""
    models = grouped((gpu.device, gpu) for gpu in scope.driven(machine))
    if len(models) == 1:
        return
    most, next_most = sorted(map(len, models.values()), reverse=True)[:2]
    if most == next_most:
        yield Seen(_listed(models))
        return
    for device, gpus in models.items():
        if len(gpus) < most:
            other_gpus = {model: gpus_of_model for model, gpus_of_model in models.items() if model != device}
            evidence = f"{_name(gpus)} beside {_listed(other_gpus)}"
            yield from (Seen(evidence, gpu.pci_address) for gpu in gpus)


def _listed(models: Mapping[str, list[Gpu]]) -> str:
    return ", ".join(f"{len(gpus)} x {_name(gpus)}" for gpus in models.values())


def _name(gpus: list[Gpu]) -> str:
    """Return the model of GPUs with one PCI id; the driver has no name for lost ones."""
    return model_of(max(gpus, key=lambda gpu: gpu.name is not None))


RULES = (
    machine_rule(
        "NG401", scope.with_answer(_real_with_hbm, none="no GPU with HBM: on GDDR it is a choice"), _ecc_off
    ),
    machine_rule("NG402", scope.with_answer(_has_ecc, none="no GPU reports ECC"), _ecc_pending),
    machine_rule("NG403", _with_remapping, _remap_pending),
    machine_rule("NG404", _with_remapping, _remap_failed),
    machine_rule("NG405", scope.with_real_gpu, _recovery),
    machine_rule("NG406", _with_ecc_on, _errors_now),
    machine_rule("NG407", _with_ecc_on, _errors_before),
    machine_rule("NG503", scope.with_answer(_mig_capable, none="no GPU with MIG"), _mig_pending),
    machine_rule("NG601", _systemd_containers, _lost_at_reload),
    machine_rule("NG602", _several, _odd_ones),
)
