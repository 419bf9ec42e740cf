"""Preview of the children of a JsonServer."""

import msgspec

from quintet.apis.jsonserver import JsonServer
from quintet.apis.meta import JsonObject
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.preview import Images, Preview, image_note


def preview(obj: JsonObject, images: Images) -> Preview:
    """Return the ConfigMap, the Service and the Deployment."""
    server = msgspec.convert(obj, JsonServer)
    notes = () if server.spec.image else (image_note(images.json_server),)
    children = (
        desired.config_map(server),
        desired.service(server),
        desired.deployment(server, images.json_server),
    )
    return Preview(children, notes)
