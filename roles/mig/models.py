"""GPU models with MIG: the profiles of each in models.json, and how a GPU's model is found.

Sources of models.json: NVIDIA MIG User Guide, supported MIG profiles; `nvidia-smi mig -lgip` and `-lgipp` of
real GPUs; for PCI ids, sizes and sets of profiles also config-default.yaml of mig-parted, and
g_nv_name_released.h and g_vgpu_chip_flags.h of NVIDIA's open kernel modules 595.45.04. A family has the
profiles of GPUs that are cut in the same way, whatever their memory. A model without a family has no public
list of placements: its profiles differ by driver and VBIOS.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.machine.topology.gpu_models import MODELS as GPUS
from numaforge.machine.topology.model import Gpu, MigProfileOffer
from numaforge.machine.topology.vendors import NVIDIA
from numaforge.roles.mig.instance import MigInstance
from numaforge.roles.mig.names import ProfileName, parse_profile_name

UNKNOWN = "Unknown"  # the generation of a model outside the table
_KEPT = 64  # models as NVML offers them; a fleet has a few
_GIBIBYTE = 2**30

# How far drivers differ in one GPU's memory: a GB200 has 186 or 189 GB, and its profile names follow from it.
_MEMORY_TOLERANCE = Fraction(1, 60)
# How far a GPU's memory may differ from its model's. Beyond that, the device is another model.
_MODEL_TOLERANCE = Fraction(1, 20)

_DEVICE_ID = re.compile(r"(?:10de:|0x)?(?P<device>[0-9a-f]{4})(?:10de)?")


@dataclass(frozen=True)
class MigProfile:
    """A kind of GPU instance that a model offers.

    `id` is NVML's profile id, as in `nvidia-smi mig -cgi`. `size` and `starts` are in memory slices, `slices`
    in compute slices. At most `limit` instances exist at once. All GPU instances share the model's video
    `decoders` and its one OFA, the engine for optical flow; JPEG engines and encoders go with the decoders.
    """

    id: int
    slices: int
    size: int
    starts: tuple[int, ...]
    limit: int
    attributes: str = ""
    decoders: int = 0
    ofas: int = 0
    name: str = ""

    def at(self, start: int, compute_instances: tuple[int, ...] | None = None) -> MigInstance:
        """Return the GPU instance of this profile at a start; undivided without `compute_instances`."""
        slices = (self.slices,) if compute_instances is None else compute_instances
        return MigInstance(self.name, self.id, start, self.size, slices)


@dataclass(frozen=True)
class MigModel:
    """A GPU model with MIG: `devices` are PCI ids in lower case, `doubt` is what is not confirmed.

    `gigabytes` is in units of 2^30 bytes. `decoders` is 0 where no geometry can run out of them (A100,
    Hopper), and where their number is unknown. `profiles` is empty where the placements are unknown.
    """

    key: str
    generation: str
    products: tuple[str, ...]
    devices: tuple[str, ...]
    gigabytes: int
    compute_slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]
    doubt: str | None = None
    decoders: int = 0

    @property
    def reset_for_mode(self) -> bool:
        """Whether a change of the mode may need a reset (NVIDIA MIG User Guide, enabling MIG mode)."""
        return self.generation in ("Ampere", UNKNOWN)

    def share(self, profile: MigProfile) -> Fraction:
        """Return the memory of a profile in GB, before rounding for the name."""
        return Fraction(profile.size * self.gigabytes, self.memory_slices)


@cache
def all_models() -> tuple[MigModel, ...]:
    """Return every model, also those whose placements are unknown."""
    tables = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return tuple(_model(row, tables["families"].get(row.pop("family"))) for row in tables["models"])


def models() -> tuple[MigModel, ...]:
    """Return every model whose placements are known."""
    return tuple(model for model in all_models() if model.profiles)


def model_of(gpu: Gpu) -> MigModel:
    """Return the model of a GPU, with NVML's profiles where known; raises PlanError for an unknown one."""
    generation = (gpu.architecture or UNKNOWN).title()
    offered = _offered(gpu.vendor, gpu.device, gpu.memory_bytes, generation, gpu.mig_profiles)
    return offered or _in_table(gpu.vendor, gpu.device, gpu.memory_bytes)


def known_model(gpu: Gpu) -> MigModel | None:
    """Return the model of a GPU; None for one that `model_of` refuses."""
    try:
        return model_of(gpu)
    except PlanError:
        return None


def mode_needs_boot(gpu: Gpu) -> bool:
    """Return whether only a boot changes the MIG mode: a guest cannot reset a GPU passed through to it."""
    if gpu.virtualization != "passthrough":
        return False
    model = known_model(gpu)
    return model is None or model.reset_for_mode  # turning MIG off needs no known model


def model_named(text: str) -> MigModel:
    """Return the model with this key, product name, the driver's name or PCI id.

    A PCI id is `2330`, `10de:2330` or mig-parted's `0x233010DE`. Raises PlanError for an unknown model, and
    for one whose placements are unknown.
    """
    model_text = text.lower().removeprefix("nvidia ")
    match = _DEVICE_ID.fullmatch(model_text)
    named = {name.lower().removeprefix("nvidia "): ids.partition(":")[2] for ids, name in GPUS.items()}
    device = match["device"] if match else named.get(model_text)
    for model in all_models():
        if model_text in (model.key, *map(str.lower, model.products)) or device in model.devices:
            if not model.profiles:
                raise PlanError(f"{model.products[0]} has MIG, but where its GPU instances lie is not known")
            return model
    raise PlanError(f"{text!r} is not among the GPUs whose MIG profiles are known", remedy=_model_names())


def profile_of(model: MigModel, name: str | ProfileName) -> MigProfile:
    """Return the model's profile for a name: slices and attributes must match exactly, gigabytes nearly.

    Gigabytes in names depend on the driver, so `1g.23gb` matches a model's `1g.24gb`. A name without them is
    the smallest profile with these slices. Raises PlanError, with the model's profiles, where none matches.
    """
    profile_name = parse_profile_name(name) if isinstance(name, str) else name
    alike = [
        profile
        for profile in model.profiles
        if (profile.slices, profile.attributes) == (profile_name.slices, profile_name.attributes)
    ]
    nearest = _nearest(model, alike, profile_name.gigabytes)
    if nearest is not None:
        return nearest
    memory = "" if profile_name.gigabytes is None else f".{profile_name.gigabytes}gb"
    shown = f"{profile_name.slices}g{memory}{profile_name.attributes}"
    offered = ", ".join(profile.name for profile in model.profiles)
    raise PlanError(f"{model.products[0]} has no profile {shown}", remedy=f"choose among {offered}")


def own_name(model: MigModel, text: str) -> str:
    """Return a name with the memory as the model's driver writes it: `3g.48gb` is `3g.47gb` on 94 GB.

    mig-parted compares names exactly (pkg/mig/config, resolveMigProfileOnDevice). Raises PlanError, as
    `profile_of` does.
    """
    profile_name = parse_profile_name(text, short=True)
    compute = f"{profile_name.compute}c." if profile_name.compute not in (None, profile_name.slices) else ""
    return f"{compute}{profile_of(model, profile_name).name}"


def _nearest(model: MigModel, alike: Sequence[MigProfile], gigabytes: int | None) -> MigProfile | None:
    if gigabytes is None:
        return min(alike, key=lambda one: one.size, default=None)
    nearest = min(alike, key=lambda one: abs(model.share(one) - gigabytes), default=None)
    if nearest is None:
        return None
    share = model.share(nearest)
    within = abs(share - gigabytes) <= Fraction(1, 2) + share * _MEMORY_TOLERANCE
    return nearest if within else None


def _in_table(vendor: str, device: str, memory_bytes: int | None) -> MigModel:
    """Return the model by PCI ids and memory; unknown memory: the first, as they differ only in the names."""
    ids = f"{vendor}:{device}"
    candidates = [one for one in models() if vendor == NVIDIA and device.lower() in one.devices]
    if not candidates:
        raise PlanError(f"{ids} is not among the GPUs whose MIG profiles are known", remedy=_model_names())
    if memory_bytes is None:
        return candidates[0]
    gigabytes = -(-memory_bytes // _GIBIBYTE)
    nearest = min(candidates, key=lambda one: abs(one.gigabytes - gigabytes))
    if abs(nearest.gigabytes - gigabytes) > nearest.gigabytes * _MODEL_TOLERANCE:
        sizes = " or ".join(str(one.gigabytes) for one in candidates)
        raise PlanError(f"{ids} has {gigabytes} GB of memory; its MIG profiles are known with {sizes} GB")
    return nearest


@lru_cache(_KEPT)
def _offered(
    vendor: str, device: str, memory_bytes: int | None, generation: str, offers: tuple[MigProfileOffer, ...]
) -> MigModel | None:
    """Return the model built from NVML's profile offers; None where they are incomplete.

    NVML does not report the media engines of profiles; they come from the table, else from the names.
    """
    try:
        table_model = _in_table(vendor, device, memory_bytes)
    except PlanError:
        table_model = None
    in_table = {profile.id: profile for profile in table_model.profiles} if table_model else {}
    profiles = [_profile_offered(offer, in_table.get(offer.id)) for offer in offers]
    if not offers or None in profiles or (table_model is None and memory_bytes is None):
        return None
    order = [*in_table]
    offered_profiles = sorted(
        (profile for profile in profiles if profile),
        key=lambda one: (order.index(one.id) if one.id in in_table else len(order), one.size, one.id),
    )
    if table_model:
        return replace(table_model, profiles=tuple(offered_profiles), doubt=None)
    return MigModel(
        key=f"{vendor}:{device}",
        generation=generation,
        products=(f"{vendor}:{device}",),
        devices=(device,),
        gigabytes=-(-(memory_bytes or 0) // _GIBIBYTE),
        compute_slices=max(profile.slices * profile.limit for profile in offered_profiles),
        memory_slices=max(start + profile.size for profile in offered_profiles for start in profile.starts),
        profiles=tuple(offered_profiles),
    )


def _profile_offered(offer: MigProfileOffer, table_profile: MigProfile | None) -> MigProfile | None:
    name = offer.name or (table_profile.name if table_profile else None)
    if name is None or offer.size is None or not offer.starts:
        return None
    try:
        attributes = parse_profile_name(name).attributes
    except NumaforgeError:
        return None
    return MigProfile(
        offer.id,
        offer.slices,
        offer.size,
        tuple(sorted(offer.starts)),
        offer.limit,
        attributes,
        decoders=table_profile.decoders if table_profile else 0,
        ofas=table_profile.ofas if table_profile else int(attributes.startswith("+me")),
        name=name,
    )


def _model_names() -> str:
    return f"known: {', '.join(one.key for one in models())}"


def _model(row: Mapping[str, Any], family: Mapping[str, Any] | None) -> MigModel:
    family = family or {"compute_slices": 0, "memory_slices": 0, "profiles": ()}
    profiles = tuple(
        _profile(profile, row["gigabytes"], family["memory_slices"]) for profile in family["profiles"]
    )
    lists = {name: tuple(row[name]) for name in ("products", "devices")}
    return MigModel(**{**family, **row, **lists, "profiles": profiles})


def _profile(row: Mapping[str, Any], gigabytes: int, memory_slices: int) -> MigProfile:
    """Return a profile with its name, by its rounded share of memory (go-nvlib, getMigMemorySizeGB)."""
    rounded = (2 * row["size"] * gigabytes + memory_slices) // (2 * memory_slices)
    name = f"{row['slices']}g.{rounded}gb{row.get('attributes', '')}"
    return MigProfile(**{**row, "starts": tuple(row["starts"]), "name": name})
