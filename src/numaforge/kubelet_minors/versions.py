"""Kubelet versions, and which minor's rules apply to each."""

import re
from dataclasses import dataclass

from numaforge.lib.errors import KubeletConfigError

OLDEST_MINOR = 28
LATEST_MINOR = 37

_VERSION = re.compile(r"v?1\.(?P<minor>[0-9]{1,4})(?:\.(?P<patch>[0-9]{1,9}))?(?:[-+.].*)?")


@dataclass(frozen=True, order=True)
class KubeletVersion:
    """A kubelet version `1.minor.patch`; `patch` is -1 where only the minor is known."""

    minor: int
    patch: int = -1

    @classmethod
    def parse(cls, text: str) -> "KubeletVersion":
        """Parse `1.33`, `v1.33.4`, `Kubernetes v1.33.4` or `v1.33.4+rke2r1`.

        Raises KubeletConfigError for anything else, and for minors older than the tables.
        """
        match = _VERSION.fullmatch(text.strip().removeprefix("Kubernetes").strip())
        if not match:
            raise KubeletConfigError(
                f"{text!r} is not a kubelet version",
                remedy="write the minor or the full version: 1.33 or v1.33.4",
            )
        version = cls(int(match["minor"]), int(match["patch"]) if match["patch"] else -1)
        if version.minor < OLDEST_MINOR:
            raise KubeletConfigError(
                f"kubelet {version} is older than the oldest one whose rules are known",
                remedy=f"use a kubelet from 1.{OLDEST_MINOR} on",
            )
        return version

    @property
    def rules_minor(self) -> int:
        """The minor whose tables apply: the latest known for a newer kubelet."""
        return min(self.minor, LATEST_MINOR)

    @property
    def notice(self) -> str | None:
        """A notice that the rules of an older minor are used, None where the version is known."""
        if self.minor <= LATEST_MINOR:
            return None
        return (
            f"kubelet 1.{self.minor} is newer than the rules known here; it is treated as 1.{LATEST_MINOR}, "
            "so new options and removed feature gates are not seen"
        )

    def __str__(self) -> str:
        return f"1.{self.minor}" if self.patch < 0 else f"1.{self.minor}.{self.patch}"


KNOWN_MINORS = tuple(range(OLDEST_MINOR, LATEST_MINOR + 1))
