"""/etc/numaforge/boot.yaml: what stands for what is not said, and each mistake with its key."""

from pathlib import Path

import pytest

from numaforge.image.first_boot.settings import BootSettings, read_settings
from numaforge.lib.errors import NumaforgeError


@pytest.mark.parametrize("text", ["", "{}\n", "# nothing\n"], ids=["empty", "no key", "a comment"])
def test_missing_settings_get_their_defaults(text: str, tmp_path: Path) -> None:
    file = tmp_path / "boot.yaml"
    file.write_text(text)
    assert read_settings(file) == BootSettings(profile=None, on_change="replan", gpus=None, wait_seconds=60)


def test_missing_settings_file_means_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "boot.yaml") == BootSettings()


MISTAKES = {
    "a key that there is not": ("profil: a", "profil: unknown key; did you mean profile?"),
    "another policy": ("on_change: maybe", "on_change: 'maybe' is not accepted; write 'replan', 'hold' or"),
    "fewer GPUs than none": ("gpus: -1", "gpus: -1 is too small"),
    "more GPUs than a machine has": ("gpus: 65", "gpus: 65 is not accepted"),
    "yes as a number of GPUs": ("gpus: yes", "gpus: True is not a whole number"),
    "a wait that holds a node up": ("wait_seconds: 601", "wait_seconds: 601 is not accepted"),
    "a list as a profile": ("profile: [a]", "profile: ['a'] is not a text"),
    "a source that there is not": ("sources: [label]", "sources[0]: 'label' is not accepted"),
    "a source twice": ("sources: [file, file]", "names file twice"),
    "a drive that is no source": (
        "drive: /dev/disk/by-path/pci-0000:00:05.0",
        "write both or neither: the source drive in sources, and its device in drive",
    ),
    "the source drive without a device": ("sources: [drive]", "write both or neither"),
    "a drive by a label": ("{sources: [drive], drive: /dev/disk/by-label/NUMAFORGE}", "drive: "),
    "a drive by what is written on it": ("{sources: [drive], drive: /dev/disk/by-id/dm-uuid-1}", "drive: "),
    "a drive by a name that moves": ("{sources: [drive], drive: /dev/sdb}", "drive: "),
    "a drive by a path out of its folder": (
        "{sources: [drive], drive: /dev/disk/by-path/../../sdb}",
        "drive: ",
    ),
    "a list": ("- profile", "is not a mapping"),
    "a key twice": ("profile: a\nprofile: b", "line 2: the key 'profile' is written twice"),
    "no YAML": ("a: b: c", "line 1: not valid YAML"),
}


@pytest.mark.parametrize(("text", "why"), MISTAKES.values(), ids=MISTAKES)
def test_invalid_settings_name_the_file(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "boot.yaml"
    file.write_text(text)
    with pytest.raises(NumaforgeError) as caught:
        read_settings(file)
    assert str(file) in str(caught.value)
    assert why in str(caught.value)
