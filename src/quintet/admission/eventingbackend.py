"""The webhooks of EventingBackend; the rules themselves are in `apis.eventingbackend`.

Mistakes in `spec.config` are warnings, so that the status can show them, or refusals. Which of the
two is said by an operator's flag for all namespaces and by a label for one. Reading labels is left
to the API server, by two webhooks for different namespaces: so we need no right on namespaces.
"""

from enum import StrEnum
from typing import Final

from quintet.admission.patch import same
from quintet.admission.review import LONGEST_WARNING, Admission, Operation, Request, Verdict
from quintet.apis import eventingbackend
from quintet.apis.eventingbackend.validation import type_errors
from quintet.apis.fields import OMITTED, FieldError
from quintet.apis.meta import JsonObject

NAMESPACE_LABEL: Final = "quintet.dev/eventing-config-errors"


class ConfigErrors(StrEnum):
    """What becomes of an object with mistakes in `spec.config`."""

    WARN = "Warn"
    REJECT = "Reject"


def admissions(usual: ConfigErrors) -> tuple[Admission, ...]:
    """The webhooks of an installation; `usual` holds where the namespace has no label of its own."""
    (other,) = set(ConfigErrors) - {usual}
    return (
        Admission(
            eventingbackend.EVENTINGBACKENDS,
            _RULES[usual],
            _default,
            # Whoever takes away a finalizer of ours must not seem to change a config that names a Secret.
            fills_in_unchanged=False,
            validates_in=_selector("NotIn", other),
        ),
        Admission(
            eventingbackend.EVENTINGBACKENDS,
            _RULES[other],
            variant=other.lower(),
            validates_in=_selector("In", other),
        ),
    )


def _selector(operator: str, mode: ConfigErrors) -> JsonObject:
    return {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": operator, "values": [mode.value]}]}


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    # At each change: `kubectl apply` takes away what is not in its file, and so what was filled in.
    return eventingbackend.default(obj)


def _warn(request: Request) -> Verdict:
    if _as_it_was(request):
        return Verdict()
    mistakes, hints = eventingbackend.judge(request.object, reject=True)
    if type_errors((request.object.get("spec") or {}).get("type")):
        return Verdict(mistakes)  # without a catalog to check against, there is nothing to admit
    return Verdict((), (*map(_warning, mistakes), *hints))


def _reject(request: Request) -> Verdict:
    return Verdict() if _as_it_was(request) else Verdict(*eventingbackend.judge(request.object, reject=True))


_RULES: Final = {ConfigErrors.WARN: _warn, ConfigErrors.REJECT: _reject}


def _as_it_was(request: Request) -> bool:
    # An object with mistakes can still be labelled, and released by its finalizer.
    return request.old_object is not None and same(request.old_object.get("spec"), request.object.get("spec"))


def _warning(mistake: FieldError) -> str:
    """As `judge` words it; what would be cut gives up the value, which its author knows."""
    text = str(mistake)
    if len(text) <= LONGEST_WARNING:
        return text
    return str(FieldError(mistake.path, mistake.kind, OMITTED, mistake.message))


REFUSING: Final = admissions(ConfigErrors.REJECT)[0]
"""For those who check without a cluster: there, nothing is admitted that has a status to show mistakes in."""
