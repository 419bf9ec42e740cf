"""Every kind of ours. `python -m quintet.manifests` writes the files of what is listed here."""

from quintet.apis.jsonserver import JSONSERVER
from quintet.apis.resources import CustomResource

CUSTOM_RESOURCES: tuple[CustomResource, ...] = (JSONSERVER,)
