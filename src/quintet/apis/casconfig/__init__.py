"""CASConfig: configuration injected into other objects and taken back. Types, and all decisions, pure.

base = layers.original(live)                                         # as if there were no config
found = matching.match(spec, key, Candidate(resource, base, pod))    # which policies, or why none
taken = sources.resolved(spec.sources(), key.namespace, look_up)     # values from other objects
at = injection.place_to_inject(pod)
asked = injection.wanted(found.policies, layers.beneath(live, key), taken.values, at)
rewrite = layers.patched(live, key, asked.settings, at)              # one patch, ledger included
rewrite = undo.undone(live, key)                                     # the opposite
"""

from quintet.apis.casconfig.spec import (
    CASConfigSpec,
    EmbeddedConfig,
    FromOperation,
    Include,
    Level,
    Mode,
    Policy,
    Scope,
    ToType,
    Values,
)
from quintet.apis.casconfig.types import (
    CASCONFIG,
    CASCONFIGS,
    FINALIZER,
    SERVICE_ACCOUNT,
    CASConfig,
    CASConfigStatus,
    ConditionType,
    PlannedChange,
    Target,
    TargetState,
)

__all__ = [
    "CASCONFIG",
    "CASCONFIGS",
    "FINALIZER",
    "SERVICE_ACCOUNT",
    "CASConfig",
    "CASConfigSpec",
    "CASConfigStatus",
    "ConditionType",
    "EmbeddedConfig",
    "FromOperation",
    "Include",
    "Level",
    "Mode",
    "PlannedChange",
    "Policy",
    "Scope",
    "Target",
    "TargetState",
    "ToType",
    "Values",
]
