"""Preview of a CASConfig, which has no children to show."""

from quintet.apis.meta import JsonObject
from quintet.controllers.preview import Images, Preview

NOTE = (
    "It creates no objects: it changes existing ones, which only the cluster knows. "
    "Set spec.mode: Preview, and status.plan lists the changes (docs/casconfig.md)."
)


def preview(obj: JsonObject, images: Images) -> Preview:
    """Return a note instead of children."""
    return Preview(notes=(NOTE,))
