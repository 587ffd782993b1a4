"""GPU models with MIG: their profiles' names, how a GPU is recognised, what a name means on it."""

import pytest

from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.machine.topology.model import Gpu
from numaforge.roles.mig.models import all_models, model_named, model_of, models, profile_of
from numaforge.roles.mig.names import ProfileName, parse_profile_name
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

# As NVIDIA's MIG User Guide and `nvidia-smi mig -lgip` print them.
NAMES = CASES["names"]


def gpu(device: str, gibibytes: float | None = None, name: str | None = None) -> Gpu:
    memory = None if gibibytes is None else int(gibibytes * 2**30)
    return Gpu("0000:01:00.0", "10de", device, 0, name=name, memory_bytes=memory)


@pytest.mark.parametrize("model", models(), ids=lambda model: model.key)
def test_profiles_have_nvidias_names_and_are_found_by_them(model):
    names = [profile.name for profile in model.profiles]
    assert " ".join(names) == NAMES[model.key]
    assert len({*names}) == len({profile.id for profile in model.profiles}) == len(model.profiles)
    assert [profile_of(model, name) for name in names] == [*model.profiles]


def test_model_names_are_unique():
    names = [name for model in all_models() for name in (model.key, *model.products)]
    assert len(set(names)) == len(names)


# ---- which model a GPU is ----


MODEL_OF = {
    "by its PCI id": (gpu("2330", 79.65), "h100-80gb"),
    "whatever the case of the id": (gpu("233A", 93.6), "h100-94gb"),
    "GH200 is no H200": (gpu("2342", 95.6, "NVIDIA GH200 480GB"), "h100-96gb"),
    "one id with two sizes: 186": (gpu("2941", 185.03), "gb200-186gb"),
    "one id with two sizes: 189": (gpu("2941", 188.4), "gb200-189gb"),
    "A800 SXM4": (gpu("20bd", 39.6), "a100-40gb"),
    "B300": (gpu("3182", 268.6), "b300-269gb"),
    "GB300": (gpu("31c2", 277.5), "gb300-278gb"),
    "H20 with HBM3e is cut as H200": (gpu("232c", 140.4), "h200-141gb"),
    "H100 SXM5 with 94 GB": (gpu("2339", 93.6), "h100-94gb"),
    "memory unknown: the first of the id": (gpu("2941"), "gb200-186gb"),
}


@pytest.mark.parametrize(("found", "key"), MODEL_OF.values(), ids=MODEL_OF)
def test_gpu_model_is_recognised(found, key):
    assert model_of(found).key == key


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param(gpu("1db6", 32), "10de:1db6 is not among", id="a model without MIG"),
        pytest.param(gpu("ffff", 80, "NVIDIA H100"), "10de:ffff is not among", id="a name does not count"),
        pytest.param(gpu("2330", 64), "has 64 GB of memory; its MIG profiles are known with 80", id="memory"),
    ],
)
def test_unknown_gpu_is_refused(found, message):
    with pytest.raises(PlanError, match=message):
        model_of(found)


@pytest.mark.parametrize(
    "text",
    [
        "h100-80gb",
        "H100-SXM5-80GB",
        "NVIDIA H100-PCIe-80GB",
        "NVIDIA H100 80GB HBM3",  # the driver's
        "2330",
        "10DE:2330",
        "0x233010DE",
    ],
)
def test_model_is_found_by_key_name_and_pci_id(text):
    assert model_named(text).key == "h100-80gb"


UNPLACED = "where its GPU instances lie is not known"


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("RTX PRO 5000 Blackwell", "rtx-pro-4500-32gb", "Thor iGPU"), UNPLACED),
        (("H100", "a100", "gpu", "", "9999"), "is not among"),
    ],
    ids=["placements not known", "partial names"],
)
def test_model_without_placements_or_by_a_partial_name_is_refused(texts, why):
    for text in texts:
        with pytest.raises(PlanError, match=why):
            model_named(text)


# ---- what a name means ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1g.5gb", ProfileName(1, 5)),
        ("7g.141gb", ProfileName(7, 141)),
        ("1c.3g.40gb", ProfileName(3, 40, compute=1)),
        ("1g.24gb+me.all", ProfileName(1, 24, "+me.all")),
        ("1g.24gb-me", ProfileName(1, 24, "-me")),
        ("1g.24gb+me,gfx", ProfileName(1, 24, "+gfx,me")),
        ("2c.2g.10gb+me", ProfileName(2, 10, "+me", 2)),
    ],
)
def test_profile_name_is_parsed(text, expected):
    assert parse_profile_name(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "1g", "1g.5", "g.5gb", "0g.5gb", "1g.05gb", "1G.5GB", "1g.5gb+", "1g.5gb+me-gfx", "1g.5gb+me,me",
     "1g.5gb +me", "4c.3g.20gb", "1g.5gb\n", "\u0661g.5gb", "all"],
)  # fmt: skip
def test_invalid_mig_profile_name_is_refused(text):
    with pytest.raises(NumaforgeError):
        parse_profile_name(text)


@pytest.mark.parametrize("one", ["gb200-186gb", "gb200-189gb"])
@pytest.mark.parametrize("other", ["gb200-186gb", "gb200-189gb"])
def test_profile_is_found_by_another_drivers_name(one, other):
    found = [profile_of(model_named(one), profile.name).id for profile in model_named(other).profiles]
    assert found == [profile.id for profile in model_named(one).profiles]


@cases("key, name", CASES["unknown_profile_is_refused_with_the_profiles_of_the_model"])
def test_unknown_profile_is_refused_with_the_profiles_of_the_model(key, name):
    with pytest.raises(PlanError) as caught:
        profile_of(model_named(key), name)
    assert f"has no profile {name}" in caught.value.message
    assert caught.value.remedy == f"choose among {', '.join(NAMES[key].split())}"
