"""GPUs that can be cut into MIG instances, what each offers, and how one is recognised."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from numaforge.errors import PlanError
from numaforge.planning.mig.names import ProfileName, parse_profile_name
from numaforge.planning.mig.tables import FAMILIES, MODELS, ModelRow, ProfileRow
from numaforge.topology.model import Gpu

NVIDIA = "10de"
_GIBIBYTE = 2**30

# By how much drivers differ in the memory of one GPU: a GB200 has 186 or 189 GB, and its profiles their
# names by it.
_MEMORY_TOLERANCE = Fraction(1, 60)
# By how much the memory of a GPU may differ from its model's. Beyond it, the device is another model.
_MODEL_TOLERANCE = Fraction(1, 20)

_DEVICE_ID = re.compile(r"(?:10de:|0x)?(?P<device>[0-9a-f]{4})(?:10de)?")


@dataclass(frozen=True)
class MigProfile:
    """A kind of GPU instance that a model offers.

    `id` is NVML's profile id, as in `nvidia-smi mig -cgi`. `size` and `starts` are in memory slices, `slices`
    in compute slices. At most `limit` of them exist at once, and at most one with `media` of all profiles.
    """

    name: str
    id: int
    slices: int
    size: int
    starts: tuple[int, ...]
    limit: int
    attributes: str = ""
    media: bool = False


@dataclass(frozen=True)
class MigModel:
    """A GPU model with MIG: `devices` are PCI ids in lower case, `doubt` says what is not confirmed."""

    key: str
    generation: str
    products: tuple[str, ...]
    devices: tuple[str, ...]
    gigabytes: int
    compute_slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]
    doubt: str | None = None

    @property
    def reset_for_mode(self) -> bool:
        """Say whether a change of the MIG mode needs a reset (NVIDIA MIG User Guide, enabling MIG mode)."""
        return self.generation == "Ampere"

    def share(self, profile: MigProfile) -> Fraction:
        """Return the memory of a profile in GB, before it is rounded for the name."""
        return Fraction(profile.size * self.gigabytes, self.memory_slices)


@cache
def models() -> tuple[MigModel, ...]:
    """Return every model whose placements are known."""
    return tuple(_model(row) for row in MODELS if row.family)


def model_of(gpu: Gpu) -> MigModel:
    """Return the model of a GPU by its PCI ids and its memory.

    Without a known memory the first model of that PCI id is taken: they differ in the names only. Raises
    PlanError for a GPU that is not in the table.
    """
    ids = f"{gpu.vendor}:{gpu.device}"
    named = [one for one in models() if gpu.vendor == NVIDIA and gpu.device.lower() in one.devices]
    if not named:
        raise PlanError(f"{ids} is not among the GPUs whose MIG profiles are known", remedy=_known())
    if gpu.memory_bytes is None:
        return named[0]
    gigabytes = -(-gpu.memory_bytes // _GIBIBYTE)
    nearest = min(named, key=lambda one: abs(one.gigabytes - gigabytes))
    if abs(nearest.gigabytes - gigabytes) > nearest.gigabytes * _MODEL_TOLERANCE:
        sizes = " or ".join(str(one.gigabytes) for one in named)
        raise PlanError(f"{ids} has {gigabytes} GB of memory; its MIG profiles are known with {sizes} GB")
    return nearest


def model_named(text: str) -> MigModel:
    """Return the model with this key, product name or PCI id.

    A PCI id is `2330`, `10de:2330` or mig-parted's `0x233010DE`. Raises PlanError for an unknown one, and for
    a model whose placements are not known.
    """
    wanted = text.lower().removeprefix("nvidia ")
    match = _DEVICE_ID.fullmatch(wanted)
    for row in MODELS:
        names = (row.key, *(product.lower() for product in row.products))
        if wanted in names or (match and match["device"] in row.devices):
            if not row.family:
                raise PlanError(f"{row.products[0]} has MIG, but where its GPU instances lie is not known")
            return next(one for one in models() if one.key == row.key)
    raise PlanError(f"{text!r} is not among the GPUs whose MIG profiles are known", remedy=_known())


def profile_of(model: MigModel, name: str | ProfileName) -> MigProfile:
    """Return what a name means on a model: slices and attributes are exact, gigabytes nearly.

    Gigabytes in names follow the driver's idea of the memory, so `1g.23gb` is found where the model says
    `1g.24gb`. Raises PlanError, with the model's profiles, for a name that fits none.
    """
    wanted = parse_profile_name(name) if isinstance(name, str) else name
    alike = [
        profile
        for profile in model.profiles
        if (profile.slices, profile.attributes) == (wanted.slices, wanted.attributes)
    ]
    nearest = min(alike, key=lambda one: abs(model.share(one) - wanted.gigabytes), default=None)
    if nearest is not None:
        share = model.share(nearest)
        if abs(share - wanted.gigabytes) <= Fraction(1, 2) + share * _MEMORY_TOLERANCE:
            return nearest
    said = f"{wanted.slices}g.{wanted.gigabytes}gb{wanted.attributes}"
    offered = ", ".join(profile.name for profile in model.profiles)
    raise PlanError(f"{model.products[0]} has no profile {said}", remedy=f"choose among {offered}")


def _known() -> str:
    return f"known: {', '.join(one.key for one in models())}"


def _model(row: ModelRow) -> MigModel:
    family = FAMILIES[row.family or ""]
    return MigModel(
        row.key,
        row.generation,
        row.products,
        row.devices,
        row.gigabytes,
        family.compute_slices,
        family.memory_slices,
        tuple(_profile(profile, row.gigabytes, family.memory_slices) for profile in family.profiles),
        row.doubt,
    )


def _profile(row: ProfileRow, gigabytes: int, memory_slices: int) -> MigProfile:
    """Return a profile with its name: its share of the memory, rounded (go-nvlib, getMigMemorySizeGB)."""
    rounded = (2 * row.size * gigabytes + memory_slices) // (2 * memory_slices)
    name = f"{row.slices}g.{rounded}gb{row.attributes}"
    return MigProfile(name, row.id, row.slices, row.size, row.starts, row.limit, row.attributes, row.media)
