"""No kind accepts a boolean where a number belongs: in Python, `True == 1`."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from quintet import kinds
from quintet.admission.review import Operation
from quintet.apis.structural import schema_errors
from quintet.authoring.validation import load_kind

Path = tuple[str | int, ...]


def list_number_paths(schema: dict[str, Any], path: Path) -> Iterator[Path]:
    """Yield the path of each field that may be a number."""
    if schema.get("type") in ("integer", "number") or schema.get("x-kubernetes-int-or-string"):
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from list_number_paths(child, (*path, name))
    if "items" in schema:
        yield from list_number_paths(schema["items"], (*path, 0))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from list_number_paths(schema["additionalProperties"], (*path, "any"))


NUMBERS = {
    kind.name: list(
        list_number_paths(load_kind(kind.api_version, kind.name)[0]["properties"]["spec"], ("spec",))
    )
    for kind in kinds.all_kinds()
    if kind.admission
}


def put(body: Any, path: Path, value: Any) -> None:
    """Set a value, and create the objects and lists above it."""
    *above, last = path
    for step, following in zip(above, path[1:], strict=True):
        empty: Any = [{}] if following == 0 else {}
        body = body.setdefault(step, empty) if isinstance(body, dict) else body[step]
    body[last] = value


def text_of(path: Path) -> str:
    parts = (f"[{step}]" if step in (0, "any") else f".{step}" for step in path)
    return "".join(parts).removeprefix(".")


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        pytest.param(kind, path, id=f"{kind.name}-{text_of(path)}")
        for kind in kinds.all_kinds()
        for path in NUMBERS.get(kind.name, ())
    ],
)
def test_true_is_refused_for_number_also_next_to_ones(kind: kinds.Kind, path: Path):
    body: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.name}
    body |= {"metadata": {"name": "app-a", "namespace": "a"}, "spec": copy.deepcopy(dict(kind.probe))}
    for sibling in NUMBERS[kind.name]:
        if sibling[:-1] == path[:-1]:
            put(body, sibling, 1)
    put(body, path, True)
    schema, admission = load_kind(kind.api_version, kind.name)
    stored = admission.default(body, Operation.CREATE) if admission.default is not None else body
    errors: list[Any] = schema_errors(schema, stored, {})
    assert any(str(error).startswith(text_of(path)) for error in errors), errors
