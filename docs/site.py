"""Write the documentation as a site into dist/docs: `make docs`; the menu is in mkdocs.yml.

The README is its first page. A block's title is what stands behind its language, such as the file's name.
Links to the repository's other files lead to copies of them. A link that leads nowhere is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from numaforge import __version__

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "dist/site"
ROOT_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
COPIED = ("docs/*.yaml", "docs/images/*.svg", "schemas/*.json")
_TITLED = re.compile(r"^( *```\w+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+)")


def page(file: Path) -> str:
    """Return a page's text as the site's generator reads it."""

    def link(match: re.Match[str]) -> str:
        target = match[1]
        if "://" in target:
            return match[0]
        inside = os.path.relpath(file.parent / target, REPOSITORY)
        return f"]({ROOT_PAGES.get(inside, inside.removeprefix('docs/'))}"

    text = _TITLED.sub(r'\1 title="\2"', file.read_text(encoding="utf-8"))
    return _LINK.sub(link, text)


def main() -> None:
    """Write the pages and what they show, and build the site from them."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    pages = {REPOSITORY / name: target for name, target in ROOT_PAGES.items()}
    pages |= {file: file.name for file in sorted((REPOSITORY / "docs").glob("*.md"))}
    for file, target in pages.items():
        (SOURCE / target).parent.mkdir(parents=True, exist_ok=True)
        (SOURCE / target).write_text(page(file), encoding="utf-8")
    for pattern in COPIED:
        for file in REPOSITORY.glob(pattern):
            copy = SOURCE / file.relative_to(REPOSITORY).as_posix().removeprefix("docs/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    generator = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    version = {**os.environ, "NUMAFORGE_VERSION": f"numaforge {__version__}"}
    sys.exit(subprocess.run(generator, cwd=REPOSITORY, env=version, check=False).returncode)


if __name__ == "__main__":
    main()
