"""Suspended objects are skipped and reported; on an API server in integration/test_cli_suspension."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quintet.apis.meta import Object, ObjectKey, ObjectMeta, Resource
from quintet.apis.steering import SUSPENDED, suspended
from quintet.controllers.suspension import unless_suspended
from quintet.runtime.cache import Store
from quintet.runtime.reconcile import Result

KEY = ObjectKey("ns", "a")
CONTROLLERS = Path(__file__).parent.parent.parent / "src/quintet/controllers"


class Scene:
    """A store, recorded Events and the number of reconciliations."""

    def __init__(self) -> None:
        self.store: Store[Object] = Store()
        self.said: list[str] = []
        self.calls = 0
        self._version = 0
        builder: Any = SimpleNamespace(
            primary=self.store,
            resource=Resource("g", "v1", "Kind", "kinds"),
            events=SimpleNamespace(record=lambda *event: self.said.append(event[4])),
        )
        self.look = unless_suspended(builder, self._reconcile)

    async def _reconcile(self, key: ObjectKey) -> Result:
        self.calls += 1
        return Result.after(5)

    def put(self, value: str | None = None, *, uid: str = "1", deleting: bool = False) -> None:
        self._version += 1
        annotations = {} if value is None else {SUSPENDED: value}
        metadata = ObjectMeta(
            name=KEY.name,
            namespace=KEY.namespace,
            uid=uid,
            resource_version=str(self._version),
            annotations=annotations,
            deletion_timestamp="2030-01-01T00:00:00Z" if deleting else None,
        )
        self.store.put(Object(metadata))


async def test_suspended_object_is_skipped_and_reported_once():
    scene = Scene()
    scene.put("true")
    assert [await scene.look(KEY) for _ in range(3)] == [Result.done()] * 3
    assert (scene.calls, scene.said) == (0, ["Suspended"])


async def test_resumed_object_is_reconciled_and_reported_once():
    scene = Scene()
    scene.put("true")
    await scene.look(KEY)
    scene.put()
    assert [await scene.look(KEY) for _ in range(2)] == [Result.after(5)] * 2
    assert (scene.calls, scene.said) == (2, ["Suspended", "Resumed"])


async def test_deletion_of_suspended_object_is_not_reported_as_resumed():
    scene = Scene()
    scene.put("true")
    await scene.look(KEY)
    scene.put("true", deleting=True)
    await scene.look(KEY)
    assert (scene.calls, scene.said) == (1, ["Suspended"])


async def test_recreated_object_is_not_reported_as_resumed():
    scene = Scene()
    scene.put("true")
    await scene.look(KEY)
    scene.put(uid="2")
    await scene.look(KEY)
    assert scene.said == ["Suspended"]


async def test_deleted_object_is_passed_to_its_controller():
    scene = Scene()
    assert await scene.look(KEY) == Result.after(5)
    assert scene.said == []


@pytest.mark.parametrize("value", ["false", "", "True", "yes", "1"])
def test_only_value_true_suspends(value):
    assert not suspended(ObjectMeta(annotations={SUSPENDED: value}))
    assert suspended(ObjectMeta(annotations={SUSPENDED: "true"}))


@pytest.mark.parametrize(
    "path", sorted(CONTROLLERS.glob("*/controller.py")), ids=lambda path: path.parent.name
)
def test_every_controller_supports_suspension(path: Path):
    assert "builder.build(unless_suspended(builder, controller.reconcile)" in path.read_text()
