"""Booleans as Go parses them from text: flags and policy options.

Source: ParseBool in Go's strconv package.
"""

from numaforge.kubelet_minors.values.gotext import quoted

_VALUES = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def parse_bool(text: str) -> bool:
    """Parse a boolean. Raises ValueError with Go's message."""
    if text not in _VALUES:
        raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")
    return _VALUES[text]


def truth(text: object) -> bool | None:
    """Return the value of a boolean, None where the text is not one."""
    return _VALUES.get(str(text))
