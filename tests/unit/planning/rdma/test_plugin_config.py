"""config.json of the shared RDMA device plugin is read as the plugin reads it: its own answers, recorded."""

import json
from pathlib import Path

import pytest

from numaforge.lib.errors import PlanError
from numaforge.roles.rdma.planned import RdmaPool
from numaforge.roles.rdma.shared_plugin import parse_plugin_config, plugin_text, refusal
from tests.oracle.rdma_answers import answer, comparable

RECORD = json.loads((Path(__file__).parent / "plugin_answers.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in RECORD["cases"]])
def test_resources_match_the_recorded_answers_of_the_plugin(case):
    assert answer(case["config"], RECORD["functions"]) == comparable(case)


UNREADABLE = {
    "no JSON": ('{"configList": [],', "config.json: not valid JSON"),
    "NaN, which Go does not read": ('{"configList": NaN}', "NaN is not valid JSON"),
    "a key twice": ('{"a": 1, "a": 2}', "the key 'a' is written twice"),
    "a key in two cases, of which Go takes the last": (
        '{"configList": [], "configlist": []}',
        "configlist is written twice, in two cases",
    ),
    "a text in place of a number": (
        '{"configList": [{"rdmaHcaMax": "63"}]}',
        'config.json: configList[0].rdmaHcaMax: "63" is not a whole number',
    ),
    "a number in place of a name": (
        '{"configList": [{"selectors": {"ifNames": ["a", 1]}}]}',
        "configList[0].selectors.ifNames[1]: 1 is not a text",
    ),
    "nested too deeply": ("[" * 100_000, "not valid JSON"),
}


@pytest.mark.parametrize(("text", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_config_the_plugin_cannot_read_is_refused_with_its_position(text, said):
    with pytest.raises(PlanError) as refused:
        parse_plugin_config(text, "config.json")
    assert said in str(refused.value)


def test_keys_ignored_by_the_plugin_are_kept_with_their_paths():
    read = parse_plugin_config('{"a": 1, "configList": [{"rdmaHcamaxx": 1, "selectors": {"pf": []}}]}', "f")
    assert [path for path, _ in read.unknown] == [
        "a",
        "configList[0].rdmaHcamaxx",
        "configList[0].selectors.pf",
    ]


def test_written_config_reads_back_unchanged():
    pool = RdmaPool("example.com/rail0", 7, ("mlx5_0",), ("0000:18:00.0",), {"ifNames": ("ib0",)})
    text = plugin_text([pool, RdmaPool("rdma/b", 1, ("b",), ("0000:19:00.0",), {"vendors": ("15b3",)})])
    read = parse_plugin_config(text, "f")
    assert json.loads(text)["configList"][1:] == [
        {"resourceName": "b", "resourcePrefix": "rdma", "rdmaHcaMax": 1, "selectors": {"vendors": ["15b3"]}}
    ]
    assert (read.interval, read.unknown, refusal(read)) == (60, (), None)
    assert [(each.resource, each.tokens) for each in read.pools] == [("example.com/rail0", 7), ("rdma/b", 1)]
