"""Repository rules that no linter checks."""

import ast
import io
import re
import subprocess
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# Split so that this file does not match its own pattern.
FORBIDDEN = re.compile(
    r"pyp[i]\.org|pythonh[o]sted|proxy\.g[o]lang|sum\.g[o]lang|npm[j]s\.org|deb\.deb[i]an|static\.crat[e]s\.io"
    r"|(^|[^A-Za-z0-9_.-])/(w[o]rk|r[o]ot)/"
)


def tracked() -> list[Path]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a git checkout")
    return [ROOT / name for name in listed.decode().split("\0") if name]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def code_lines(path: Path) -> int:
    """Count the lines that are neither blank nor comment nor docstring."""
    source = path.read_text()
    docs: set[int] = set()
    for node in ast.walk(parsed(path)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docs.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docs)


def test_no_source_file_is_longer_than_four_hundred_lines():
    assert [str(path) for path in SOURCES if len(path.read_text().splitlines()) > 400] == []


def test_no_function_is_longer_than_fifty_lines():
    long = []
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > 50:
                    long.append(f"{path.name}:{node.lineno} {node.name} has {length} lines")
    assert long == []


def test_runtime_has_fewer_than_2000_lines():
    assert sum(map(code_lines, (ROOT / "src/quintet/runtime").glob("*.py"))) < 2000


def test_no_module_has_a_catch_all_name():
    drawers = {"utils", "util", "helpers", "common", "misc"}
    assert [str(path) for path in SOURCES if path.stem in drawers or path.parent.name in drawers] == []


def test_every_module_has_docstring_of_at_most_twelve_lines():
    silent = []
    for path in SOURCES:
        text = ast.get_docstring(parsed(path))
        if path.read_text().strip() and (
            text is None or (len(text.splitlines()) > 12 and path.name not in LONG)
        ):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


# Their docstring is the table that the module implements.
LONG = {"errors.py", "reconcile.py"}


def test_no_file_names_registry_or_machine_path():
    found = []
    for path in tracked():
        if path.is_file() and path.suffix not in {".png", ".sum"}:
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if FORBIDDEN.search(line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []
