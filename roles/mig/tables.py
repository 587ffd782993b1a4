"""Facts about GPU models with MIG: the profiles of each family, and the models in it.

Sources: NVIDIA MIG User Guide, supported MIG profiles; `nvidia-smi mig -lgip` and `-lgipp` of real GPUs;
for PCI ids, sizes and sets of profiles also config-default.yaml of mig-parted, and g_nv_name_released.h and
g_vgpu_chip_flags.h of NVIDIA's open kernel modules 595.45.04. Placements are in memory slices. The names of
profiles follow from slices and memory.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProfileRow:
    """A profile of a family, still without a name.

    `id` is NVML's profile id, as in `nvidia-smi mig -cgi`. `size` and `starts` are in memory slices, `slices`
    in compute slices. At most `limit` instances exist at once. All GPU instances share the model's video
    `decoders` and its one OFA, the engine for optical flow.
    """

    id: int
    slices: int
    size: int
    starts: tuple[int, ...]
    limit: int
    attributes: str = ""
    decoders: int = 0
    ofas: int = 0


@dataclass(frozen=True)
class FamilyRow:
    """GPUs that are cut in the same way, whatever their memory.

    Each has one OFA. `decoders` is 0 where memory and compute slices run out first: A100 and Hopper have
    different numbers of decoders, and neither ever runs out. JPEG engines and encoders go with the decoders.
    """

    compute_slices: int
    memory_slices: int
    decoders: int
    profiles: tuple[ProfileRow, ...]


@dataclass(frozen=True)
class ModelRow:
    """A model; without a family its placements are unknown. `gigabytes` is in units of 2^30 bytes."""

    key: str
    generation: str
    family: str | None
    gigabytes: int
    devices: tuple[str, ...]
    products: tuple[str, ...]
    doubt: str | None = None


_ANY = tuple(range(7))
_QUARTERS = (0, 3, 6, 9)
_HALVES = (0, 6)

FAMILIES = {
    "seven": FamilyRow(
        7,
        8,
        0,
        (
            ProfileRow(19, 1, 1, _ANY, 7),
            ProfileRow(20, 1, 1, _ANY, 1, "+me", ofas=1),
            ProfileRow(15, 1, 2, (0, 2, 4, 6), 4),
            ProfileRow(14, 2, 2, (0, 2, 4), 3),
            ProfileRow(9, 3, 4, (0, 4), 2),
            ProfileRow(5, 4, 4, (0,), 1),
            ProfileRow(0, 7, 8, (0,), 1, ofas=1),
        ),
    ),
    "a30": FamilyRow(
        4,
        4,
        4,
        (
            ProfileRow(14, 1, 1, (0, 1, 2, 3), 4),
            ProfileRow(21, 1, 1, (0, 1, 2, 3), 1, "+me", decoders=1, ofas=1),
            ProfileRow(5, 2, 2, (0, 2), 2, decoders=2),
            ProfileRow(6, 2, 2, (0, 2), 1, "+me", decoders=2, ofas=1),
            ProfileRow(0, 4, 4, (0,), 1, decoders=4, ofas=1),
        ),
    ),
    "rtx-pro-6000": FamilyRow(
        4,
        12,
        4,
        (
            ProfileRow(14, 1, 3, _QUARTERS, 4, decoders=1),
            ProfileRow(21, 1, 3, _QUARTERS, 1, "+me", decoders=1, ofas=1),
            ProfileRow(47, 1, 3, _QUARTERS, 4, "+gfx", decoders=1),
            ProfileRow(65, 1, 3, _QUARTERS, 1, "+me.all", decoders=4, ofas=1),
            ProfileRow(67, 1, 3, _QUARTERS, 4, "-me"),
            ProfileRow(5, 2, 6, _HALVES, 2, decoders=2),
            ProfileRow(35, 2, 6, _HALVES, 2, "+gfx", decoders=2),
            ProfileRow(64, 2, 6, _HALVES, 1, "+me.all", decoders=4, ofas=1),
            ProfileRow(66, 2, 6, _HALVES, 2, "-me"),
            ProfileRow(0, 4, 12, (0,), 1, decoders=4, ofas=1),
            ProfileRow(32, 4, 12, (0,), 1, "+gfx", decoders=4, ofas=1),
        ),
    ),
}

_FROM_FAMILY = "placements taken from its family"

MODELS = (
    ModelRow(
        "a100-40gb",
        "Ampere",
        "seven",
        40,
        ("20b0", "20b1", "20bd", "20f1", "20f6"),
        ("A100-SXM4-40GB", "A100-PCIE-40GB", "A800-SXM4-40GB", "A800-40GB"),
    ),
    ModelRow(
        "a100-80gb",
        "Ampere",
        "seven",
        80,
        ("20b2", "20b5", "20f3", "20f5"),
        ("A100-SXM4-80GB", "A100-PCIE-80GB", "A800-80GB"),
    ),
    ModelRow("pg506-96gb", "Ampere", "seven", 96, ("20b6",), ("PG506-232",), _FROM_FAMILY),
    ModelRow("a30-24gb", "Ampere", "a30", 24, ("20b7",), ("A30",)),
    ModelRow("h100-64gb", "Hopper", "seven", 64, ("2337",), ("H100-SXM5-64GB",), _FROM_FAMILY),
    ModelRow(
        "h100-80gb",
        "Hopper",
        "seven",
        80,
        ("2330", "2331", "2322", "2324"),
        ("H100-SXM5-80GB", "H100-PCIe-80GB", "H800-80GB"),
    ),
    ModelRow(
        "h100-94gb",
        "Hopper",
        "seven",
        94,
        ("2321", "2339", "233a"),
        ("H100 NVL", "H100-SXM5-94GB", "H800 NVL"),
    ),
    ModelRow(
        "h100-96gb", "Hopper", "seven", 96, ("2342", "233d", "2329"), ("GH200-96GB", "H100-96GB", "H20")
    ),
    ModelRow(
        "h200-141gb", "Hopper", "seven", 141, ("2335", "233b", "232c"), ("H200-SXM5", "H200 NVL", "H20-3e")
    ),
    ModelRow("gh200-144gb", "Hopper", "seven", 144, ("2348",), ("GH200 144G HBM3e",)),
    ModelRow("b200-180gb", "Blackwell", "seven", 180, ("2901",), ("B200",)),
    ModelRow("gb200-186gb", "Blackwell", "seven", 186, ("2941",), ("GB200",), _FROM_FAMILY),
    ModelRow("gb200-189gb", "Blackwell", "seven", 189, ("2941",), ("GB200 (older driver)",), _FROM_FAMILY),
    ModelRow("b300-269gb", "Blackwell", "seven", 269, ("3182",), ("B300",), _FROM_FAMILY),
    ModelRow("gb300-278gb", "Blackwell", "seven", 278, ("31c2",), ("GB300",), _FROM_FAMILY),
    ModelRow(
        "rtx-pro-6000-96gb",
        "Blackwell",
        "rtx-pro-6000",
        96,
        ("2bb5", "2bb1", "2bb4"),
        (
            "RTX PRO 6000 Blackwell Server Edition",
            "RTX PRO 6000 Blackwell Workstation Edition",
            "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        ),
        "that the counts of media engines alone decide which profiles go together",
    ),
    # Their profiles differ by driver and VBIOS, and no list of their placements is public.
    ModelRow("rtx-pro-5000-48gb", "Blackwell", None, 48, (), ("RTX PRO 5000 Blackwell",)),
    ModelRow("rtx-pro-4500-32gb", "Blackwell", None, 32, (), ("RTX PRO 4500 Blackwell",)),
    ModelRow("thor-igpu", "Blackwell", None, 0, (), ("Thor iGPU",)),
)
