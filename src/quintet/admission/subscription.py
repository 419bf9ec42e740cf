"""The webhooks of Subscription; the rules themselves are in `apis.subscription`."""

from quintet.admission.patch import same
from quintet.admission.review import Admission, Operation, Request, Verdict
from quintet.apis import subscription
from quintet.apis.meta import JsonObject


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    # Only at creation: a finalizer that somebody took away on purpose must not come back.
    return subscription.default(obj) if operation is Operation.CREATE else obj


def _validate(request: Request) -> Verdict:
    # An object that came past the webhooks can still be labelled, and released by its finalizer.
    if request.old_object is not None and same(request.old_object.get("spec"), request.object.get("spec")):
        return Verdict()
    return Verdict(subscription.judge(request.object))


ADMISSION = Admission(subscription.SUBSCRIPTIONS, _validate, _default)
