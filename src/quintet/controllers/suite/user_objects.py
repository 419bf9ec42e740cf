"""Lists the objects of users."""

from collections.abc import Iterable

import msgspec

from quintet.apis.meta import Object
from quintet.apis.resources import CustomResource
from quintet.controllers.suite.decide.user_objects import UserObject
from quintet.kube.client import Client
from quintet.kube.errors import NotFound


async def list_user_objects(client: Client, kinds: Iterable[CustomResource]) -> list[UserObject]:
    """Return all objects of these kinds that the cluster serves."""
    found = []
    for kind in kinds:
        try:
            async for page in client.pages(kind.resource, metadata_only=True):
                decoded = (msgspec.json.decode(item, type=Object) for item in page.items)
                found += [UserObject(kind, each.metadata) for each in decoded]
        except NotFound:
            continue  # the cluster does not serve the kind
    return found
