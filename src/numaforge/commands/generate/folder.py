"""Write files below a folder."""

from collections.abc import Mapping
from pathlib import Path

from numaforge.lib.errors import NumaforgeError


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files below a folder, which may exist; other files in it stay."""
    for name, text in texts.items():
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise NumaforgeError(f"cannot be written: {error.strerror}", where=str(file)) from error
