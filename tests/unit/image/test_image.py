"""An image: each mistake of the host data `numaforge_image`, and what an image is not yet."""

import json
from dataclasses import replace

import pytest

from numaforge.image.bake import FoundImage, Recipe, best_python, checksum, read_found
from numaforge.image.bake.manifest import BOM, Installed, bill
from numaforge.image.first_boot.chosen import image_kubelet
from numaforge.image.first_boot.settings import MANIFEST
from numaforge.image.first_boot.stamp import PROGRAM
from numaforge.image.wish import Image, read_image
from numaforge.lib.errors import HostError, NumaforgeError
from numaforge.lib.framing import Answer
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)


@cases("said, why", CASES["mistakes"])
def test_invalid_image_field_is_named(said, why):
    with pytest.raises(NumaforgeError) as caught:
        read_image(said)
    assert why in str(caught.value)


@cases("said", CASES["accepted"])
def test_valid_image_is_accepted(said):
    assert isinstance(read_image(said), Image)


def test_mistakes_in_a_file_name_the_file(tmp_path):
    file = tmp_path / "image.yaml"
    file.write_text("packges: {}\n")
    with pytest.raises(NumaforgeError, match=f"{file}: packges"):
        read_image(str(file))


PYTHON = (("3.12", "x86_64", "/usr/bin/python3"),)
INSTALLED = (Installed("bash", "5.2-1", "amd64"), Installed("containerd", "2.1-1", "amd64"))


def recipe(**said: object) -> Recipe:
    return Recipe(read_image({"enable": ["containerd.service"], **said}), {})


def whole(made: Recipe) -> FoundImage:
    """Return an image that is as it is to be."""
    found = FoundImage(
        pythons=PYTHON,
        units=dict.fromkeys(made.units, "enabled"),
        packages=dict.fromkeys(made.wish.packages, ("2.1-1", "held")),
        installed=INSTALLED,
        release="debian 13",
    )
    texts = {**made.files(found), **made.records(found)}
    return replace(found, files={path: checksum(text) for path, text in texts.items()})


def without(found: FoundImage, path: str) -> FoundImage:
    return replace(found, files={name: total for name, total in found.files.items() if name != path})


WISH = recipe(packages={"containerd": "2.1-*"}, sysprep=True)
WHOLE = whole(WISH)


@cases("row, version, source", CASES["roots_kubelet"])
def test_manifest_has_the_version_printed_by_the_kubelet(row, version, source, tmp_path):
    found = replace(WHOLE, kubelet=read_found(Answer({"": (f"kubelet {row}",)})).kubelet)
    text = WISH.records(found)[MANIFEST]
    assert json.loads(text)["kubelet"] == {
        "version": version,
        "source": source,
        "file": {row.split()[2]: "0a"},
    }
    (tmp_path / MANIFEST[1:]).parent.mkdir(parents=True)
    (tmp_path / MANIFEST[1:]).write_text(text)
    assert image_kubelet(tmp_path) == version


LACKS: dict[str, tuple[FoundImage, tuple[str, ...]]] = {
    "nothing": (WHOLE, ()),
    "a file": (without(WHOLE, PROGRAM), (f"{PROGRAM} is written",)),
    "a file that was edited": (
        replace(WHOLE, files={**WHOLE.files, MANIFEST: "00"}),
        (f"{MANIFEST} is written",),
    ),
    "a hold": (replace(WHOLE, packages={"containerd": ("2.1-1", "free")}), ("containerd is held",)),
    "a version": (
        replace(WHOLE, packages={"containerd": ("1.7-1", "held")}),
        ("containerd 2.1-* is installed in the place of 1.7-1",),
    ),
    "a package": (replace(WHOLE, packages={}), ("containerd 2.1-* is installed", "containerd is held")),
    "a unit that is enabled": (
        replace(WHOLE, units={**WHOLE.units, "containerd.service": "disabled"}),
        ("containerd.service is enabled, and not started",),
    ),
    "sysprep": (
        replace(WHOLE, left=("/etc/ssh/ssh_host_rsa_key", "/etc/machine-id")),
        ("/etc/ssh/ssh_host_rsa_key is removed", "/etc/machine-id is emptied"),
    ),
    "a Python, which a package may bring": (
        FoundImage(packages={"bash": ("5.2-1", "free")}),
        (
            "containerd 2.1-* is installed",
            "containerd is held",
            "numaforge is put into /opt/numaforge, with its files and units",
        ),
    ),
}


@pytest.mark.parametrize(("found", "sentences"), LACKS.values(), ids=LACKS)
def test_each_missing_part_of_an_image_is_described(found, sentences):
    assert (*WISH.lacks(found),) == sentences


def test_package_in_any_version_is_missing_until_installed():
    made = recipe(packages={"containerd": "*"})
    assert made.missing(FoundImage(pythons=PYTHON)) == ("containerd",)
    assert made.missing(FoundImage(packages={"containerd": ("2.1-1", "held")})) == ()


@pytest.mark.parametrize(
    ("pythons", "why"),
    [((), "the image has no Python"), ((("3.10", "x86_64", "/usr/bin/python3"),), "the image has 3.10")],
    ids=["none", "one that is too old"],
)
def test_image_without_a_supported_python_is_refused(pythons, why):
    with pytest.raises(HostError, match=f"{why}, and numaforge needs 3.11"):
        best_python(FoundImage(pythons=pythons))


def test_first_supported_python_is_chosen():
    old, new = ("3.10", "x86_64", "/usr/bin/python3"), ("3.11", "x86_64", "/usr/bin/python3.11")
    assert best_python(FoundImage(pythons=(old, new, *PYTHON))) == new


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_bill_of_materials_is_reproducible(kind):
    made = [bill("debian 13", kind, INSTALLED, {"click": "8.1"}) for _ in range(2)]
    assert made[0] is not None
    assert made[0] == made[1]
    document = json.loads(made[0])
    assert {f"pkg:{kind}/debian/bash@5.2-1?arch=amd64&distro=debian-13", "pkg:pypi/click@8.1"} <= {
        each.get("purl") for each in document["components"]
    }
    assert BOM in WHOLE.files
