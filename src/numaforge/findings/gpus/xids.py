"""What the driver's Xid codes require of an administrator: one table for findings, alerts and pages.

Source: NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors), by the action that it names
first: a reset, or a restart of the application; and nverror.h of its open kernel modules.
"""

import json
from collections.abc import Mapping
from pathlib import Path

_MEANINGS: Mapping[str, Mapping[int, str]] = {
    action: {int(code): meaning for code, meaning in codes.items()}
    for action, codes in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")).items()
}

FATAL = _MEANINGS["fatal"]
"""The meanings of codes after which the GPU needs a reset, or more; its work is lost."""

APPLICATION = _MEANINGS["application"]
"""The application is at fault, or alone lost, by this code; the GPU keeps working."""

IGNORED = _MEANINGS["ignored"]
"""Nothing to do, by the catalogue's first action and its second."""

NONE_YET = 0
"""DCGM's value for no Xid since it started."""
