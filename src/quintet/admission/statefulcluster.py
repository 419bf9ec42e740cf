"""The webhook of StatefulCluster; the rules themselves are in `apis.statefulcluster`."""

from quintet.admission.patch import same
from quintet.admission.review import Admission, Request, Verdict
from quintet.apis import statefulcluster
from quintet.apis.meta import JsonObject


def _validate(request: Request) -> Verdict:
    # An object that came past the webhook can still be labelled, scaled and released by its finalizers.
    if request.old_object is not None and same(_written(request.old_object), _written(request.object)):
        return Verdict()
    return Verdict(*statefulcluster.judge(request.object, request.old_object))


def _written(obj: JsonObject) -> JsonObject:
    """What of an object is judged."""
    spec = {key: value for key, value in (obj.get("spec") or {}).items() if key != "replicas"}
    return {"spec": spec, "annotations": (obj.get("metadata") or {}).get("annotations") or {}}


ADMISSION = Admission(statefulcluster.STATEFULCLUSTERS, _validate)
