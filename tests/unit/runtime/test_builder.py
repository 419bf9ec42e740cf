"""What a controller watches besides its own kind."""

from quintet.apis.meta import Object, ObjectKey, ObjectMeta, Resource
from quintet.clock import SystemClock
from quintet.kube.client import Client
from quintet.kube.config import ClusterConfig
from quintet.kube.transport import Transport
from quintet.runtime.builder import Builder
from quintet.runtime.handlers import changes_desired_state
from quintet.runtime.manager import Manager
from quintet.runtime.ownership import Child

THINGS = Resource("example.com", "v1", "Thing", "things")
SECRETS = Resource("", "v1", "Secret", "secrets")


async def test_irrelevant_changes_of_watched_objects_and_children_queue_nothing():
    async with Transport(ClusterConfig("http://127.0.0.1:1")) as transport:
        builder = Builder(Manager(Client(transport), SystemClock(), "m"), "thing", THINGS, Object)
        builder.queue.resume()
        secrets = builder.watches(
            SECRETS, Object, to=lambda _: [ObjectKey("ns", "of-secret")], is_relevant=changes_desired_state
        )
        children = builder.owns(SECRETS, is_relevant=lambda old, new: old.deleting != new.deleting)
        for cache in (secrets, children):
            cache.finish_list(set(), 0)

        async def queued() -> list[str]:
            found = []
            while len(builder.queue):
                found.append(key := await builder.queue.get())
                builder.queue.done(key)
            return [key.name for key in found]

        def secret(version: int, **labels: str) -> Object:
            return Object(ObjectMeta("s", "ns", resource_version=str(version), labels=labels))

        def child(version: int, *, deleting: bool = False) -> Child[None]:
            uid = str(version)
            return Child(
                ObjectKey("ns", "c"), version, uid, "of-child", "", "", "", deleting, "[]", None, None
            )

        secrets.put(secret(1))
        children.put(child(1))
        assert await queued() == ["of-secret", "of-child"]
        secrets.put(secret(2))
        children.put(child(2))
        assert await queued() == []
        secrets.put(secret(3, a="b"))
        children.put(child(3, deleting=True))
        assert await queued() == ["of-secret", "of-child"]
