"""Files of the kernel, as kernel_files.sh prints them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable


def parse_values(lines: Iterable[str], paths: Collection[str] = ()) -> dict[str, str]:
    """Return the first line of each file by path, from what `tell_values` printed.

    Only the paths that are named here may hold a colon, as for the interface eth0:1 or a PCI address.
    """
    known_paths, values = {*paths}, dict[str, str]()
    for line in lines:
        ends = [colon.start() for colon in re.finditer(":", line)]
        end = next((end for end in ends if line[:end] in known_paths), ends[0] if ends else len(line))
        values.setdefault(line[:end], line[end + 1 :])
    return values
