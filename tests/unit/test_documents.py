"""Links, anchors and file names in the documentation exist."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")],
)
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def prose(page: Path) -> str:
    """Return the text of a page without its fenced blocks."""
    return BLOCK.sub("", page.read_text())


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(text)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_links_to_existing_files_and_headings(page):
    missing = []
    for link in LINK.findall(prose(page)):
        target, _, anchor = link.partition("#")
        if target.startswith(("http:", "https:")):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists():
            missing.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(path):
            missing.append(f"{link}: no such heading")
    assert missing == []


def test_index_lists_every_page_of_docs():
    index = ROOT / "docs/index.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(index))}
    assert sorted(set((ROOT / "docs").rglob("*.md")) - linked - {index}) == []
