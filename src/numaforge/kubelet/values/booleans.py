"""Booleans as Go reads them in text: flags and policy options.

Source: ParseBool in Go's strconv package.
"""

from __future__ import annotations

from numaforge.kubelet.values.gotext import quoted

_VALUES = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def parse_bool(text: str) -> bool:
    """Read a boolean. Raises ValueError with Go's text."""
    if text not in _VALUES:
        raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")
    return _VALUES[text]


def truth(text: object) -> bool | None:
    """Return what a boolean says, None for what is none."""
    return _VALUES.get(str(text))
