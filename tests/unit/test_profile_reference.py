"""docs/profiles.md lists every key as the schema has it, and its examples are accepted."""

import re

import pytest
import yaml

from lab.paths import REPOSITORY
from numaforge.planning.json_schema import json_schema
from numaforge.planning.profiles import load_profile
from tests.fixtures.profile_examples import examples


@pytest.mark.parametrize("profile", [pytest.param(profile, id=key) for key, profile in examples()])
def test_an_example_is_accepted(profile):
    assert load_profile(profile)


def test_every_key_has_a_description():
    schema = json_schema("profile")
    for section in (schema, *schema["$defs"].values()):
        assert all(value.get("description") for value in section["properties"].values())


@pytest.mark.parametrize("page", ["profiles.md", "host.md", "rdma-libraries.md"])
def test_yaml_on_the_page_is_a_profile(page):
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        assert load_profile(yaml.safe_load(block))
