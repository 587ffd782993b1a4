"""/etc/numaforge/boot.yaml: what stands for what is not said, and each mistake with its key."""

from pathlib import Path

import pytest

from numaforge.image.first_boot.settings import BootSettings, read_settings
from numaforge.lib.errors import NumaforgeError
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)


@pytest.mark.parametrize("text", ["", "{}\n", "# nothing\n"], ids=["empty", "no key", "a comment"])
def test_missing_settings_get_their_defaults(text: str, tmp_path: Path) -> None:
    file = tmp_path / "boot.yaml"
    file.write_text(text)
    assert read_settings(file) == BootSettings(profile=None, on_change="replan", gpus=None, wait_seconds=60)


def test_missing_settings_file_means_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "boot.yaml") == BootSettings()


@cases("text, why", CASES["mistakes"])
def test_invalid_settings_name_the_file(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "boot.yaml"
    file.write_text(text)
    with pytest.raises(NumaforgeError) as caught:
        read_settings(file)
    assert str(file) in str(caught.value)
    assert why in str(caught.value)
