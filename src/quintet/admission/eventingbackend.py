"""Webhooks of EventingBackend.

Errors in `spec.config` either reject the object or are only warnings, so that the status can list them. A
flag of the operator sets this for all namespaces, a namespace label for one. Two webhooks with opposite
namespace selectors let the API server read the label, so we need no permission to read namespaces.
"""

from typing import Final

from quintet.admission.review import LONGEST_WARNING, Admission, AdmissionRequest, Operation
from quintet.apis import eventingbackend
from quintet.apis.eventingbackend.types import ConfigErrors
from quintet.apis.eventingbackend.validation import type_errors
from quintet.apis.fields import OMITTED, FieldError, ValidationResult
from quintet.apis.meta import JsonObject

NAMESPACE_LABEL: Final = "quintet.dev/eventing-config-errors"


def admissions(mode: ConfigErrors) -> tuple[Admission, ...]:
    """Return the webhooks of an installation; `mode` applies to namespaces without the label."""
    (other,) = set(ConfigErrors) - {mode}
    return (
        Admission(
            eventingbackend.EVENTINGBACKENDS,
            _RULES[mode],
            _default,
            # Removing a finalizer must not count as changing a config that names a Secret.
            default_unchanged=False,
            validation_namespaces=_selector("NotIn", other),
        ),
        Admission(
            eventingbackend.EVENTINGBACKENDS,
            _RULES[other],
            variant=other.lower(),
            validation_namespaces=_selector("In", other),
        ),
    )


def _selector(operator: str, mode: ConfigErrors) -> JsonObject:
    return {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": operator, "values": [mode.value]}]}


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    # At every change: `kubectl apply` removes defaults that are not in its file.
    return eventingbackend.default(obj)


def _warn(request: AdmissionRequest) -> ValidationResult:
    if request.spec_unchanged:
        return ValidationResult()
    errors, warnings = eventingbackend.validate(request.object, reject=True)
    if type_errors((request.object.get("spec") or {}).get("type")):
        return ValidationResult(errors)  # an unknown type is always rejected: it has no options to check
    return ValidationResult((), (*map(_warning, errors), *warnings))


def _reject(request: AdmissionRequest) -> ValidationResult:
    if request.spec_unchanged:
        return ValidationResult()
    return eventingbackend.validate(request.object, reject=True)


_RULES: Final = {ConfigErrors.WARN: _warn, ConfigErrors.REJECT: _reject}


def _warning(error: FieldError | str) -> str:
    """Return the error as a warning; without the value if it would be too long, for the user knows it."""
    if isinstance(error, str) or len(str(error)) <= LONGEST_WARNING:
        return str(error)
    return str(FieldError(error.path, error.type, OMITTED, error.message))


REJECTING: Final = admissions(ConfigErrors.REJECT)[0]
"""For validation without a cluster, where no status could list the errors."""
