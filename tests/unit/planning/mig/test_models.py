"""GPU models with MIG: their profiles' names, how a GPU is recognised, what a name means on it."""

import pytest

from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.machine.topology.model import Gpu
from numaforge.roles.mig.models import model_named, model_of, models, profile_of
from numaforge.roles.mig.names import ProfileName, parse_profile_name
from numaforge.roles.mig.tables import MODELS

# As NVIDIA's MIG User Guide and `nvidia-smi mig -lgip` print them.
NAMES = {
    "a100-40gb": "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "a100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "pg506-96gb": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "h100-64gb": "1g.8gb 1g.8gb+me 1g.16gb 2g.16gb 3g.32gb 4g.32gb 7g.64gb",
    "a30-24gb": "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb",
    "h100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-94gb": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "h100-96gb": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "h200-141gb": "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "gh200-144gb": "1g.18gb 1g.18gb+me 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb",
    "b200-180gb": "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "gb200-186gb": "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb",
    "gb200-189gb": "1g.24gb 1g.24gb+me 1g.47gb 2g.47gb 3g.95gb 4g.95gb 7g.189gb",
    "b300-269gb": "1g.34gb 1g.34gb+me 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb",
    "gb300-278gb": "1g.35gb 1g.35gb+me 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb",
    "rtx-pro-6000-96gb": "1g.24gb 1g.24gb+me 1g.24gb+gfx 1g.24gb+me.all 1g.24gb-me "
    "2g.48gb 2g.48gb+gfx 2g.48gb+me.all 2g.48gb-me 4g.96gb 4g.96gb+gfx",
}


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
    names = [name for row in MODELS for name in (row.key, *row.products)]
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


@pytest.mark.parametrize(
    ("key", "name"),
    [
        pytest.param("h100-80gb", "1g.99gb", id="nonsense"),
        pytest.param("a100-40gb", "1g.6gb", id="the profile of an A30"),
        pytest.param("h200-141gb", "7g.144gb", id="the profile of a larger model"),
        pytest.param("h100-80gb", "3g.20gb", id="the profile of a smaller model"),
        pytest.param("h100-80gb", "1g.10gb+gfx", id="an attribute that it does not have"),
        pytest.param("h100-80gb", "5g.40gb", id="slices that it does not have"),
    ],
)
def test_unknown_profile_is_refused_with_the_profiles_of_the_model(key, name):
    with pytest.raises(PlanError) as caught:
        profile_of(model_named(key), name)
    assert f"has no profile {name}" in caught.value.message
    assert caught.value.remedy == f"choose among {', '.join(NAMES[key].split())}"
