"""One config inside the spec of another kind, applied to the children of that kind before they are written.

Pure. No patch follows and nobody fights: the children are written with the values in them, and without them
once the config is gone. Labels and annotations that the owner itself gives its children stay as they are.
Whatever would have to be read from the API server cannot be taken `from` it here.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from quintet.apis.casconfig import injection, sources
from quintet.apis.casconfig.matching import Candidate, miss
from quintet.apis.casconfig.places import ABSENT, METADATA_ROOTS, Path, Subject, absolute
from quintet.apis.casconfig.spec import EmbeddedConfig
from quintet.apis.casconfig.validation import policy_errors
from quintet.apis.fields import FieldError, FieldErrors, FieldPath
from quintet.apis.meta import JsonObject, Resource

Owned = Callable[[str], bool]


class Child(NamedTuple):
    """An object as its owner wants it, and where in it the pod is."""

    resource: Resource
    body: JsonObject
    pod: Path | None = None


def apply_embedded(spec: EmbeddedConfig | None, child: Child) -> JsonObject:
    """The child with what a config sets on it; without a config, as it is."""
    if spec is None:
        return child.body
    candidate = Candidate(child.resource, child.body, child.pod)
    namespace = candidate.key.namespace
    policies = [policy for policy in spec.policies if miss(policy, candidate) is None]
    taken = {
        source: sources.secret_key(source, namespace)
        for policy in policies
        for source in policy.values.sources
        if sources.is_secret(source)
    }
    asked = injection.desired_settings(policies, child.body, taken, child.pod)
    subject, given = Subject(child.body), Subject(child.body)
    for setting in asked.settings:
        path = absolute(setting.path, child.pod)
        if path is None or (setting.path[0] in METADATA_ROOTS and given.get(path) is not ABSENT):
            continue
        if setting.value is ABSENT:
            subject.remove(path)
        else:
            subject.put(path, setting.value, setting.at)
    return subject.object


def embedded_errors(
    written: JsonObject, path: FieldPath, without: Collection[str] = (), owned: Owned = lambda label: False
) -> list[FieldError]:
    """What is wrong with a config inside another kind, which has no use for some of the `values` (`without`)
    and gives its children some labels itself (`owned`).
    """
    errors = FieldErrors()
    try:
        spec = msgspec.convert(written, EmbeddedConfig)
    except msgspec.ValidationError as error:
        errors.invalid(path, None, str(error))
        return list(errors)
    for index, policy in enumerate(spec.policies):
        values = path.child("policies").index(index).child("values")
        for field in policy.values.for_pods:
            if field in without:
                errors.forbidden(values.child(field), "the containers of this kind must stay; use sidecars")
        for key in policy.values.labels:
            if owned(key):
                errors.forbidden(
                    values.child("labels").key(key), "this label is set without the config, and stays"
                )
        for at, source in enumerate(policy.values.sources):
            if not sources.is_secret(source):
                why = "an embedded config reads no other objects; only a Secret can be referred to"
                errors.forbidden(values.child("from").index(at), why)
            elif source.namespace:
                why = "a Secret must be in the namespace of the object"
                errors.forbidden(values.child("from").index(at).child("namespace"), why)
    return [*errors, *policy_errors(spec, path)]
