"""Preview of a Subscription, which has no children to show."""

from quintet.apis.meta import JsonObject
from quintet.controllers.preview import Images, Preview

NOTE = "It creates no objects, but a consumer in the stream of its backend, which delivers to spec.sink."


def preview(obj: JsonObject, images: Images) -> Preview:
    """Return a note instead of children."""
    return Preview(notes=(NOTE,))
