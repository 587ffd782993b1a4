"""Validation of plain numbers."""

from collections.abc import Callable

from numaforge.kubelet.startup.validation.refusals import CompleteConfig, Refusals, invalid


def not_negative(name: str, flag: str) -> Callable[[CompleteConfig], Refusals]:
    def check(config: CompleteConfig) -> Refusals:
        value = config.number(name)
        if value < 0:
            yield invalid(
                "NF110",
                name,
                f"{name} ({flag}) {value} must not be a negative number",
                f"set {name} to 0 or more",
            )

    return check


def between(name: str, flag: str, low: int, high: int) -> Callable[[CompleteConfig], Refusals]:
    def check(config: CompleteConfig) -> Refusals:
        value = config.number(name)
        if not low <= value <= high:
            yield invalid(
                "NF110",
                name,
                f"{name} ({flag}) {value} must be between {low} and {high}, inclusive",
                f"set {name} to a value from {low} to {high}",
            )

    return check
