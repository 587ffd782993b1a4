"""Names of MIG profiles as NVIDIA's go-nvlib reads them: `[Cc.]Gg.GBgb[+attribute,...|-attribute,...]`."""

import re
from dataclasses import dataclass

from numaforge.lib.errors import NumaforgeError

_NUMBER = "[1-9][0-9]{0,3}"
_ATTRIBUTE = "[a-zA-Z][a-zA-Z0-9.]*"
_NAME = re.compile(
    rf"((?P<compute>{_NUMBER})c\.)?(?P<slices>{_NUMBER})g(\.(?P<gigabytes>0|{_NUMBER})gb)?"
    rf"(?P<attributes>[+-]{_ATTRIBUTE}(,{_ATTRIBUTE})*)?"
)
MOST_DEVICES = 64  # limit for one profile on a GPU; more than any GPU holds

# A MIG profile name in a numaforge profile, for schemas.
NAME_PATTERN = re.sub(r"\?P<[a-z]+>", "", _NAME.pattern)


@dataclass(frozen=True)
class ProfileName:
    """The parsed name of a MIG profile.

    `compute` is the size, in compute slices, of a compute instance that is smaller than its GPU instance.
    `attributes` is "" or the sign and the attributes in order: "+me", "-me". `gigabytes` is None in a short
    name, such as `1g`.
    """

    slices: int
    gigabytes: int | None
    attributes: str = ""
    compute: int | None = None


def parse_profile_name(text: str, *, short: bool = False) -> ProfileName:
    """Parse a profile's name as go-nvlib does; `short` also accepts names without memory: `1g`, `1g+me`."""
    match = _NAME.fullmatch(text)
    if match is None or not (short or match["gigabytes"]):
        more = ", or 1g" if short else ""
        raise NumaforgeError(
            f"{text!r} is not the name of a MIG profile; write for example 1g.10gb, 1g.10gb+me or 1c.3g.40gb"
            f"{more}"
        )
    slices = int(match["slices"])
    compute = int(match["compute"]) if match["compute"] else None
    if compute is not None and compute > slices:
        raise NumaforgeError(
            f"{text!r} wants {compute} compute slices of a GPU instance that has {slices}; "
            f"write {slices}c or less"
        )
    gigabytes = int(match["gigabytes"]) if match["gigabytes"] else None
    sign, names = (match["attributes"] or "")[:1], (match["attributes"] or "")[1:].split(",")
    if len(set(names)) != len(names):
        raise NumaforgeError(f"{text!r} has an attribute twice; write each once")
    return ProfileName(slices, gigabytes, sign + ",".join(sorted(names)), compute)
