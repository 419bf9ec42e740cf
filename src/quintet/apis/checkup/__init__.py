"""Checkup: a diagnostic job and its results. Types, defaults and validation."""

from quintet.apis.checkup.types import (
    CHECKUP,
    CHECKUPS,
    Checkup,
    CheckupSpec,
    CheckupStatus,
    CheckupTemplate,
    CheckupTemplateMetadata,
    ConcurrencyPolicy,
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
    "ConcurrencyPolicy",
    "Phase",
    "Run",
    "Verdict",
]
