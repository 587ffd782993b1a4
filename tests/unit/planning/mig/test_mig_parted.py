"""mig-parted's file is read strictly: what it may say, and what is said of each mistake."""

import pytest

from numaforge.lib.errors import PlanError
from numaforge.roles.mig.section import parse_config
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)


def file(entry: str) -> str:
    return f"version: v1\nmig-configs:\n  a:\n    - {{{entry}}}\n"


def entry_of(text: str):
    return parse_config(file(text), "config.yaml")["a"][0]


def message(text: str) -> str:
    with pytest.raises(PlanError) as caught:
        parse_config(text, "config.yaml")
    return str(caught.value)


def test_every_key_is_read():
    entry = entry_of(
        'device-filter: ["0x233010DE", "0x20B010DE:0x134F10DE"], devices: [0, 2], mig-enabled: true, '
        "mig-devices: {1g.10gb: 2, 1c.3g.40gb: 3}"
    )
    filters = [(one.vendor, one.device, one.subsystem) for one in entry.device_filter]
    assert filters == [("10de", "2330", ""), ("10de", "20b0", "134f10de")]
    assert entry.devices == (0, 2)
    assert entry.mig_enabled
    assert entry.mig_devices == {"1g.10gb": 2, "1c.3g.40gb": 3}


@pytest.mark.parametrize(
    ("text", "filters", "devices", "mig_devices"),
    [
        pytest.param(
            'device-filter: "0x233010DE", devices: all, mig-enabled: false', 1, None, None, id="one filter"
        ),
        pytest.param("devices: all, mig-enabled: true, mig-devices: {}", 0, None, {}, id="the mode alone"),
        pytest.param("devices: [1], mig-enabled: false, mig-devices: {}", 0, (1,), {}, id="off, with none"),
    ],
)
def test_short_forms_are_read(text, filters, devices, mig_devices):
    entry = entry_of(text)
    assert (len(entry.device_filter), entry.devices, entry.mig_devices) == (filters, devices, mig_devices)


@pytest.mark.parametrize(("entry", "field", "said"), CASES["mistakes"].values(), ids=CASES["mistakes"])
def test_error_is_reported_with_its_path(entry, field, said):
    text = message(file(entry))
    assert text.startswith(f"config.yaml: mig-configs.a[0]{f'.{field}' if field else ''}: ")
    assert said in text
    assert "\n" not in text


@cases("text, said", CASES["invalid_files"])
def test_invalid_mig_parted_file_is_refused(text, said):
    assert said in message(text)


def test_all_errors_of_a_file_are_reported_at_once():
    text = message(
        "version: v1\nmig-configs:\n  a: [{devices: 0}]\n  b: [{devices: all, mig-enabled: true}]\n"
    )
    assert text.startswith("config.yaml: 3 mistakes:")
    assert [line.split(":")[0].strip() for line in text.splitlines()[1:]] == [
        "mig-configs.a[0].devices",
        "mig-configs.a[0].mig-enabled",
        "mig-configs.b[0]",
    ]


def test_last_repeated_key_counts_as_in_mig_parted() -> None:
    text = "version: v1\nmig-configs: {a: [{devices: [0], devices: all, mig-enabled: false}]}"
    assert parse_config(text, "config.yaml")["a"][0].devices is None
