"""docs/host.md names every setting and sysctl, and its profile is one."""

from __future__ import annotations

import re

import yaml

from docs.rule_tables import HOST_PAGE as PAGE
from numaforge.planning.profiles import load_profile
from numaforge.roles.host.managers import KUBELET_SYSCTLS
from numaforge.roles.host.section import Host, Limits

TEXT = PAGE.read_text(encoding="utf-8")


def test_every_setting_has_its_row():
    settings = [f"host.{name}" for name in Host.model_fields if name != "limits"]
    settings += [f"host.limits.{name}" for name in Limits.model_fields]
    assert [name for name in settings if f"`{name}`" not in TEXT] == []


def test_every_sysctl_of_the_kubelet_is_named():
    assert [name for name in KUBELET_SYSCTLS if f"`{name}`" not in TEXT] == []


def test_the_profile_on_the_page_is_accepted():
    example = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert example is not None
    assert load_profile({"name": "page", **yaml.safe_load(example[1])}).host.hold_packages
