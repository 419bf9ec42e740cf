"""The size rules of the source apply to the benchmarks too."""

import ast
from pathlib import Path

FILES = sorted((Path(__file__).parents[3] / "benchmarks").rglob("*.py"))


def test_benchmark_files_and_functions_are_short_and_documented():
    assert FILES
    wrong = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        if len(path.read_text().splitlines()) > 400:
            wrong.append(f"{path.name} is too long")
        if not 1 <= len((ast.get_docstring(tree) or "").splitlines()) <= 12:
            wrong.append(f"{path.name} has no short docstring")
        wrong += [
            f"{path.name}: {node.name} is too long"
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno + 1 > 50
        ]
    assert wrong == []
