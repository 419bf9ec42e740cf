"""JsonServer: a mock JSON API from a custom resource. Types, defaults and validation."""

from quintet.apis.jsonserver.types import (
    JSONSERVER,
    JSONSERVERS,
    JsonServer,
    JsonServerSpec,
    JsonServerStatus,
    JsonServerTemplate,
    JsonServerTemplateMetadata,
    State,
    Storage,
)
from quintet.apis.jsonserver.validation import default, validate

__all__ = [
    "JSONSERVER",
    "JSONSERVERS",
    "JsonServer",
    "JsonServerSpec",
    "JsonServerStatus",
    "JsonServerTemplate",
    "JsonServerTemplateMetadata",
    "State",
    "Storage",
    "default",
    "validate",
]
