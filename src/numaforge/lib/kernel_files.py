"""Files of the kernel, as kernel_files.sh prints them."""

import re
from collections.abc import Collection, Iterable


def parse_values(lines: Iterable[str], paths: Collection[str] = ()) -> dict[str, str]:
    """Return files' texts from the output of `tell_values`; only these paths may hold a colon (eth0:1)."""
    known_paths, values = {*paths}, dict[str, str]()
    for line in lines:
        ends = [colon.start() for colon in re.finditer(":", line)]
        end = next((end for end in ends if line[:end] in known_paths), ends[0] if ends else len(line))
        path, text = line[:end], line[end + 1 :]
        values[path] = f"{values[path]}\n{text}" if path in values else text
    return values
