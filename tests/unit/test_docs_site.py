"""The documentation is built as a site: every page is in the menu, and every link leads somewhere."""

import re
import subprocess
import sys

from lab.paths import REPOSITORY

SITE = REPOSITORY / "dist/docs"


def test_site_builds_without_errors() -> None:
    built = subprocess.run(
        [sys.executable, "docs/site.py"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert 'title="refusal"' not in (SITE / "refused/index.html").read_text()  # a block, and no text


def test_menu_lists_every_page() -> None:
    menu = re.findall(r": (\S+)\.md$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [file.stem for file in (REPOSITORY / "docs").glob("*.md")]
    assert sorted(menu) == sorted([*pages, "index", "changelog", "contributing", "security"])
