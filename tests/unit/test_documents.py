"""Links, anchors, files and functions that the documentation names exist."""

import ast
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


ARCHITECTURE = ROOT / "ARCHITECTURE.md"
SOURCE = ROOT / "src/quintet"
CODE = re.compile(r"`([^`\n]+)`")


@cache
def members() -> dict[str, set[str]]:
    """Return the functions and constants of every module, and the methods of every class, by its name."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for owner in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
            names = found.setdefault(owner.name if isinstance(owner, ast.ClassDef) else path.stem, set())
            for node in owner.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    names.add(node.name)
                elif isinstance(node, ast.Assign | ast.AnnAssign):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    names.update(target.id for target in targets if isinstance(target, ast.Name))
    return found


def test_architecture_has_at_most_four_screens():
    assert len(ARCHITECTURE.read_text().splitlines()) <= 220


def test_architecture_names_existing_files_and_folders():
    paths = [
        code
        for code in CODE.findall(prose(ARCHITECTURE))
        if re.fullmatch(r"[\w.*/-]+", code)
        and ("/" in code or code.endswith(".py"))
        and "quintet.dev" not in code
    ]
    assert paths
    assert [path for path in paths if not any((*ROOT.glob(path), *SOURCE.glob(path)))] == []


def test_architecture_names_existing_functions_and_classes():
    names = [code for code in CODE.findall(prose(ARCHITECTURE)) if re.fullmatch(r"[A-Za-z]\w+\.\w+", code)]
    names = [
        name for name in names if not name.endswith((".py", ".toml", ".md")) and not name.startswith("spec.")
    ]
    assert names
    missing = [
        name for name in names if name.partition(".")[2] not in members().get(name.partition(".")[0], set())
    ]
    assert missing == []
    classes = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", prose(ARCHITECTURE)))
    kinds = {"JsonServer", "StatefulCluster", "EventingBackend", "CASConfig", "InternalError", "ConfigMap"}
    assert sorted(classes - kinds - set(members())) == []


@pytest.mark.parametrize(
    ("page", "package"), [("0012-http-client.md", "web"), ("0014-nats-client.md", "nats")]
)
def test_size_in_decision_record_is_that_of_the_package(page, package):
    stated = re.search(r"about\s+([\d,]+)\s+lines", (ROOT / "docs/adr" / page).read_text())
    assert stated
    sources = (ROOT / "src/quintet" / package).glob("*.py")
    lines = sum(len(path.read_text().splitlines()) for path in sources)
    assert int(stated[1].replace(",", "")) == pytest.approx(lines, rel=0.1)
