"""Checkup: a diagnostic job and what it found. What users write, and when it is right."""

from quintet.apis.checkup.types import (
    CHECKUP,
    CHECKUPS,
    Checkup,
    CheckupSpec,
    CheckupStatus,
    Overlay,
    OverlayMetadata,
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
    "Overlay",
    "OverlayMetadata",
    "Phase",
    "Run",
    "Verdict",
]
