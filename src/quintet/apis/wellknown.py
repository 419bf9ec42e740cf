"""Schemas of the types that all Kubernetes objects share.

A kind uses `Conditions` in its status:

    conditions: Conditions = ()
"""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta

from quintet.apis.markers import list_map
from quintet.apis.meta import Condition, JsonObject, ObjectMeta

MOST_CONDITIONS = 16

CONDITION: Final[JsonObject] = {
    "description": "One aspect of the current state of the object.",
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {
            "description": "When the status last changed from one value to another.",
            "type": "string",
            "format": "date-time",
        },
        "message": {
            "description": "Details for people. May be empty.",
            "type": "string",
            "maxLength": 32768,
        },
        "observedGeneration": {
            "description": "The generation of the object that the condition is about. "
            "If it is lower than metadata.generation, the condition is out of date.",
            "type": "integer",
            "format": "int64",
            "minimum": 0,
        },
        "reason": {
            "description": "Why the condition last changed, as one CamelCase word for programs.",
            "type": "string",
            "maxLength": 1024,
            "minLength": 1,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {
            "description": "Whether the condition holds.",
            "type": "string",
            "enum": ["True", "False", "Unknown"],
        },
        "type": {
            "description": "What the condition is about, in CamelCase or in foo.example.com/CamelCase.",
            "type": "string",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
    },
}
"""The schema of `metav1.Condition` with its bounds."""

SCHEMAS: Final[Mapping[type, JsonObject]] = {Condition: CONDITION, ObjectMeta: {"type": "object"}}

Conditions = Annotated[
    tuple[Condition, ...],
    list_map("type"),
    Meta(description="What is known about the current state of the object.", max_length=MOST_CONDITIONS),
]
