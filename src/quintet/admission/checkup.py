"""The webhooks of Checkup; the rules themselves are in `apis.checkup`."""

from quintet.admission.patch import same
from quintet.admission.review import Admission, Operation, Request, Verdict
from quintet.apis.checkup import CHECKUPS
from quintet.apis.checkup.types import IMMUTABLE_SPEC
from quintet.apis.checkup.validation import default, old_names, spec_errors
from quintet.apis.fields import SPEC, FieldError, Kind
from quintet.apis.meta import JsonObject


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    # The finalizer only at creation: one that somebody took away on purpose must not come back.
    return default(obj, created=operation is Operation.CREATE)


def _validate(request: Request) -> Verdict:
    old = request.old_object
    # An object that came past the webhooks can still be labelled, and released by its finalizer.
    if old is not None and same(old.get("spec"), request.object.get("spec")):
        return Verdict()
    if old is not None and (old.get("status") or {}).get("startTime"):
        return Verdict((FieldError(SPEC, Kind.FORBIDDEN, message=IMMUTABLE_SPEC),))
    return Verdict(tuple(spec_errors(request.object.get("spec") or {})))


ADMISSION = Admission(
    CHECKUPS, _validate, _default, old_names, too_large="The Checkup is too large: shorten its params."
)
