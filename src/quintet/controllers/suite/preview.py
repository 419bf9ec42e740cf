"""Preview of a Quintet, which has no children to show."""

from quintet.apis.meta import JsonObject
from quintet.controllers.preview import Images, Preview

NOTE = "`quintet install --dry-run` prints the objects of an installation."


def preview(obj: JsonObject, images: Images) -> Preview:
    """Return a note instead of children."""
    return Preview(notes=(NOTE,))
