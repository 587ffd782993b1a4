"""Where a setting is written: in the main file, in a drop-in, or on the command line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from numaforge.findings import Finding
from numaforge.kubelet.findings import Fault
from numaforge.kubelet_minors.values.gojson import Path

_STEP = re.compile(r'\["(?P<key>[^"]*)"\]|\[(?P<index>\d+)\]|\.?(?P<name>[^.\[]+)')


def split_path(path: str) -> Path:
    """Return the steps of a dotted path: `reservedMemory[0].limits` -> ("reservedMemory", 0, "limits")."""
    return tuple(
        int(match["index"]) if match["index"] else match["key"] or match["name"]
        for match in _STEP.finditer(path)
    )


@dataclass(frozen=True)
class Places:
    """The lines of the main file and of each drop-in, and the flag that set each field, by dotted name."""

    main: str
    main_lines: Mapping[Path, int]
    drop_in_lines: Mapping[str, Mapping[Path, int]]
    flag_names: Mapping[str, str]
    drop_in_dir: str

    def finding(self, fault: Fault, text: str | None = None) -> Finding:
        """Return a finding about a setting, with the file and line (or the flag) that set it."""
        where = fault.where or ""
        flag = self.flag_of(where)
        if flag is not None:
            return fault._replace(where=flag).finding(text)
        file, line = self.locate(split_path(where))
        return fault.finding(text, file, line)

    def flag_of(self, path: str) -> str | None:
        """Return the flag that set a field, or a part of it, or None."""
        return next(
            (
                flag
                for name, flag in self.flag_names.items()
                if path == name or path.startswith((f"{name}.", f"{name}[")) or name.startswith(f"{path}.")
            ),
            None,
        )

    def locate(self, path: Path) -> tuple[str | None, int | None]:
        """Return the file and line of a path or its nearest parent; the last drop-in wins."""
        for length in range(len(path), 0, -1):
            prefix = path[:length]
            for name in reversed(list(self.drop_in_lines)):
                if prefix in self.drop_in_lines[name]:
                    return f"{self.drop_in_dir}/{name}", self.drop_in_lines[name][prefix]
            if prefix in self.main_lines:
                return self.main, self.main_lines[prefix]
        return None, None
