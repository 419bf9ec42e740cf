"""Checkup: a diagnostic job and what it found. What users write, and when it is right."""

from quintet.apis.checkup.types import (
    CHECKUP,
    CHECKUPS,
    Checkup,
    CheckupSpec,
    CheckupStatus,
    CheckupTemplate,
    CheckupTemplateMetadata,
    Phase,
    Run,
    Verdict,
)

__all__ = [
    "CHECKUP",
    "CHECKUPS",
    "Checkup",
    "CheckupSpec",
    "CheckupStatus",
    "CheckupTemplate",
    "CheckupTemplateMetadata",
    "Phase",
    "Run",
    "Verdict",
]
