"""docs/host.md names every setting and sysctl, and its profile is one."""

import re

import yaml

from docs.rule_tables import HOST_PAGE as PAGE
from numaforge.planning.profiles import load_profile

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_profile_on_the_page_is_accepted():
    example = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert load_profile({"name": "page", **yaml.safe_load(example[1])}).host.hold_packages
