"""What `quintet preview` shows for an object: the children that its controller would create."""

from typing import NamedTuple

from quintet import imagenames
from quintet.apis.meta import JsonObject

UNKNOWN_UID = "<uid>"


class Images(NamedTuple):
    """Images and namespace that the controllers are configured with; by default those of this version."""

    json_server: str = imagenames.JSON_SERVER
    eventing: str = imagenames.QUINTET
    nats: str = imagenames.NATS
    system_namespace: str = "quintet-system"


class Preview(NamedTuple):
    """The children of one object in the order of their creation, and notes for the user."""

    children: tuple[JsonObject, ...] = ()
    notes: tuple[str, ...] = ()


def with_uid(obj: JsonObject) -> JsonObject:
    """Return the object with its uid, or with a placeholder before it is created."""
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "uid": metadata.get("uid") or UNKNOWN_UID}}


def image_note(image: str) -> str:
    """Return a note that the controller may use another image."""
    return f"{image} is the default image of this version; the controller may be configured with another one."
