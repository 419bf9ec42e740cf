"""`quintet validate` accepts and rejects the same objects as a real API server.

The objects are samples with random changes. Webhooks are not called: they share their functions with `validate`.
"""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.cluster.api import Api, RefusedError
from kit.cluster.control_plane import wait_for_crds
from quintet.apis.structural import schema_errors
from quintet.authoring.cel_rules import RULES
from quintet.authoring.documents import Document
from quintet.authoring.validation import has_validation, load_kind, validate_document

ROOT = Path(__file__).parent.parent.parent
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 2**31, 2**40, 1.5, "", "a", "A b", "10", "0", "text\nof lines", "ü", "x" * 300,
    "5%", "OnDelete", "Never", "2026-01-01T00:00:00Z", [], [1], ["a", "a"], [{}], [None], {}, {"a": "b"}, {"a": 1}, {"name": "x"},
)  # fmt: skip
FEW, MANY = 40, 200


def sample_objects() -> Iterator[Any]:
    files = sorted((ROOT / "config/samples").glob("*.yaml"))
    for file in files:
        for number, body in enumerate(filter(None, yaml.safe_load_all(file.read_text()))):
            if has_validation(body["apiVersion"], body["kind"]):
                body["metadata"].pop("namespace", None)
                yield pytest.param(body, id=f"{file.stem}-{number}")


def changeable_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value and of a new field in each object."""
    yield path
    if isinstance(value, dict):
        yield (*path, "another")
        for name, child in value.items():
            yield from changeable_paths(child, (*path, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from changeable_paths(child, (*path, index))


def with_change(body: Any, chance: random.Random) -> Any:
    made = copy.deepcopy(body)
    *way, last = chance.choice([path for path in changeable_paths(made["spec"], ("spec",)) if len(path) > 1])
    target = made
    for step in way:
        target = target[step]
    if chance.random() < 0.2 and last != "another":
        del target[last]
    else:
        target[last] = chance.choice(VALUES)
    return made


@pytest.fixture(scope="module")
async def kinds(cluster):
    done = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(ROOT / "config/crd"))
    assert done.returncode == 0, done.stderr

    await wait_for_crds(cluster)


async def find_rejection(api: Api, path: str, body: Any) -> str:
    """Return the API server's rejection of an object, or nothing."""
    try:
        await api.create(path, body, dryRun="All", fieldValidation="Strict")
    except RefusedError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("body", list(sample_objects()))
@pytest.mark.parametrize(
    "changes",
    [pytest.param(FEW, id="some"), pytest.param(MANY, id="many", marks=pytest.mark.exhaustive)],
)
async def test_validate_command_and_api_server_reject_same_objects(body, changes, kinds, api: Api, namespace):
    kind = body["apiVersion"], body["kind"]
    schema, admission = load_kind(*kind)
    path = admission.resource.path(namespace)
    assert await find_rejection(api, path, body) == ""
    chance = random.Random(str(kind))
    disagreements = []
    for _ in range(changes):
        made = with_change(body, chance)
        said = await find_rejection(api, path, made)
        ours = validate_document(Document("f", 1, made), namespace).errors
        if said and not ours:
            disagreements.append(f"refused by the server alone: {made['spec']}: {said}")
        of_schema = schema_errors(schema, made, RULES)
        if of_schema and not said:
            disagreements.append(f"refused by us alone: {made['spec']}: {'; '.join(map(str, of_schema))}")
    assert disagreements == []
