"""The webhooks of CASConfig; the rules themselves are in `apis.casconfig`."""

from quintet.admission.review import Admission, Operation, Request, Verdict
from quintet.apis.casconfig import CASCONFIGS
from quintet.apis.casconfig.overlap import overlaps
from quintet.apis.casconfig.validation import aliases, default, judge, rewritten
from quintet.apis.jsonpatch import same
from quintet.apis.meta import JsonObject


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    # The finalizer only at creation: one that somebody took away on purpose must not come back.
    return default(obj) if operation is Operation.CREATE else rewritten(obj)


def _old_names(obj: JsonObject) -> tuple[str, ...]:
    return tuple(aliases(obj))


def _validate(request: Request) -> Verdict:
    # An object that came past the webhooks can still be labelled, and released by its finalizer.
    if request.old_object is not None and same(request.old_object.get("spec"), request.object.get("spec")):
        return Verdict()
    found = judge(request.object)
    doubts = () if found.errors else tuple(overlaps(request.object))
    return Verdict(found.errors, (*found.warnings, *doubts))


ADMISSION = Admission(
    CASCONFIGS, _validate, _default, _old_names, too_large="The CASConfig is too large: split its policies."
)
