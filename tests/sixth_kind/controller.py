"""Reconciles Greetings: each owns a ConfigMap with its text."""

from quintet.apis.meta import Condition, JsonObject, Resource
from quintet.components import Settings
from quintet.controllers.preview import Images, Preview
from quintet.runtime.apply import Children
from quintet.runtime.builder import Builder
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler
from sixth_kind.types import FINALIZER, GREETINGS, Greeting, GreetingStatus, Language

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
LABELS = {"app.kubernetes.io/managed-by": "greetings"}
_WORDS = {Language.ENGLISH: "Hello", Language.FRENCH: "Bonjour"}


class GreetingController(ObjectReconciler[Greeting]):
    """Reconciles Greetings."""

    finalizer = FINALIZER

    def __init__(self, children: Children) -> None:
        self._children = children

    async def reconcile(self, obj: Greeting, context: Context[Greeting]) -> Outcome:
        await self._children.ensure(obj, CONFIG_MAPS, config_map(obj))
        ready = Condition("Ready", "True", "ConfigMapApplied", f"ConfigMap {obj.metadata.name} is up to date")
        return Outcome(GreetingStatus(text=text(obj), conditions=(ready,)))

    async def finalize(self, obj: Greeting, context: Context[Greeting]) -> Outcome | None:
        gone = await self._children.remove(obj, CONFIG_MAPS, obj.metadata.name)
        return None if gone else Outcome(requeue_after=1.0)


def text(greeting: Greeting) -> str:
    return f"{_WORDS[greeting.spec.language]} {greeting.spec.person}"


def config_map(greeting: Greeting) -> JsonObject:
    metadata = {"name": greeting.metadata.name, "namespace": greeting.metadata.namespace, "labels": LABELS}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"greeting": text(greeting)},
    }


def preview(obj: JsonObject, images: Images) -> Preview:
    import msgspec

    return Preview((config_map(msgspec.convert(obj, Greeting)),))


def start(manager: Manager, settings: Settings) -> None:
    builder = Builder(manager, "greeting", GREETINGS, Greeting)
    builder.owns(CONFIG_MAPS, labels="app.kubernetes.io/managed-by=greetings")
    builder.build(GreetingController(builder.children), workers=settings.workers)
