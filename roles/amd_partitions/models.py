"""Which modes AMD's GPUs have, and which of them go together.

Compute modes: drivers/gpu/drm/amd/amdgpu/aqua_vanjaram.c of Linux, __aqua_vanjaram_update_supported_modes and
__aqua_vanjaram_get_px_mode_info, on bare metal. For a model without a table, only its driver knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.gpu_models import COMPUTE_DIES, MODELS, PARTITIONS
from numaforge.machine.topology.vendors import AMD

MEMORY_MODES = ("NPS1", "NPS2", "NPS4", "NPS8")

_EIGHT_DIES = {"SPX": ("NPS1",), "DPX": ("NPS1", "NPS2"), "QPX": ("NPS1", "NPS4"), "CPX": ("NPS1", "NPS4")}
_SIX_DIES = {"SPX": ("NPS1",), "TPX": ("NPS1",), "CPX": ("NPS1",)}


@dataclass(frozen=True)
class AmdModel:
    """A GPU that can be partitioned: its key in profiles, compute dies (XCDs), HBM stacks and memory in GiB.

    `pairs` are the memory modes that go with each compute mode; empty where no table says so. `unified` is
    memory that is the machine's own, too.
    """

    key: str
    device: str
    dies: int
    stacks: int
    memory_gib: int
    pairs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unified: bool = False

    @property
    def name(self) -> str:
        """The model as people call it: "MI300X"."""
        return MODELS[f"{AMD}:{self.device}"].removeprefix("AMD Instinct ")

    def describe(self, compute: str, memory: str) -> str:
        """Describe the partitions that two modes make: their number and size."""
        parts, regions = partitions(compute, self.dies), memory_partitions(memory)
        return (
            f"{compute} makes {parts} of its {self.dies} XCDs, {self.dies // parts} each; "
            f"{memory} makes {regions} of its {self.stacks} HBM stacks, "
            f"{self.memory_gib // regions} GiB each"
        )


MODELS_BY_DEVICE: Mapping[str, AmdModel] = {
    model.device: model
    for model in (
        AmdModel("mi300a", "74a0", COMPUTE_DIES["74a0"], 8, 128, _SIX_DIES, unified=True),
        AmdModel("mi300x", "74a1", COMPUTE_DIES["74a1"], 8, 192, _EIGHT_DIES),
        AmdModel("mi308x", "74a2", COMPUTE_DIES["74a2"], 8, 192),
        AmdModel("mi325x", "74a5", COMPUTE_DIES["74a5"], 8, 256, _EIGHT_DIES),
        AmdModel("mi350x", "75a0", COMPUTE_DIES["75a0"], 8, 288),
        AmdModel("mi355x", "75a3", COMPUTE_DIES["75a3"], 8, 288),
    )
}
VIRTUAL_FUNCTIONS = frozenset({"74b5", "74b6", "74b9", "74bc", "74bd", "75b0", "75b3"})
"""PCI device ids of virtual functions, whose modes are their host's to set."""


def partitions(compute: str, dies: int) -> int:
    """Return how many partitions a compute mode makes of a GPU with `dies` dies."""
    return PARTITIONS.get(compute, dies)


def memory_partitions(memory: str) -> int:
    """Return how many memory partitions a memory mode makes."""
    return int(memory.removeprefix("NPS"))


def model_named(name: str) -> AmdModel:
    """Return a model by its key or PCI ids: "mi300x", "1002:74a1"; raises PlanError for another name."""
    model_text = name.lower().removeprefix(f"{AMD}:")
    for model in MODELS_BY_DEVICE.values():
        if model_text in (model.key, model.device):
            return model
    raise PlanError(
        f"{name!r} is not an AMD model that can be partitioned",
        remedy=f"name one of {', '.join(model.key for model in MODELS_BY_DEVICE.values())}",
    )
