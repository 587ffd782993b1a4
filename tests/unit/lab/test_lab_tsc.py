"""The counter's frequency is measured, not read from a name."""

from __future__ import annotations

import platform

import pytest

from lab import tsc


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this machine is not x86-64")
def test_two_measurements_agree_within_a_percent():
    first = tsc.frequency_khz()
    tsc.frequency_khz.cache_clear()
    assert tsc.frequency_khz() == pytest.approx(first, rel=0.01)


def test_another_architecture_has_none(monkeypatch):
    tsc.frequency_khz.cache_clear()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert tsc.frequency_khz() is None
    tsc.frequency_khz.cache_clear()
