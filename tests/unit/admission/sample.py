"""Webhooks for the test kind, and reviews to send them."""

import json
import threading
from typing import Any

from kit.kinds.widgets import WIDGETS
from quintet.admission.review import Admission, AdmissionRequest, Operation
from quintet.apis.fields import SPEC, FieldErrors, ValidationResult
from quintet.apis.meta import JsonObject

SENTENCE = "Invalid text: must not be empty."
WARNING = "spec.replicas: more than ten widgets are a crowd"
VALIDATE = "/validate/widgets.test.quintet.dev"
MUTATE = "/mutate/widgets.test.quintet.dev"

hold = threading.Event()
"""A widget of mode "slow" is judged when this is set."""


def default(obj: JsonObject, operation: Operation) -> JsonObject:
    obj["spec"].setdefault("replicas", 1)  # in place: a patch must come of it all the same
    return obj


def validate(request: AdmissionRequest) -> ValidationResult:
    spec = request.object["spec"]
    if spec.get("mode") == "slow":
        hold.wait(20)
    if spec.get("mode") == "crash":
        raise RuntimeError("this widget crashes its validation")
    if spec.get("mode") == "forbidden":
        return ValidationResult((f"Not for {request.user.username}.",))
    errors = FieldErrors()
    if spec.get("text") == "":
        errors.invalid(SPEC.child("text"), "", SENTENCE)
    return ValidationResult(tuple(errors), (WARNING,) if spec.get("replicas", 0) > 10 else ())


ADMISSION = Admission(WIDGETS, validate, default)


def a_review(operation: str = "CREATE", *, old: JsonObject | None = None, **spec: Any) -> JsonObject:
    """As the API server sends it."""
    body = {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": WIDGETS.group, "version": "v1", "kind": "Widget"},
            "resource": {"group": WIDGETS.group, "version": "v1", "resource": "widgets"},
            "requestKind": {"group": WIDGETS.group, "version": "v1", "kind": "Widget"},
            "name": "w",
            "namespace": "shop",
            "operation": operation,
            "userInfo": {
                "username": "ada",
                "groups": ["system:authenticated"],
                "extra": {"k8s.io/pod-name": ["p"]},
            },
            "object": body,
            "oldObject": old,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }


def encoded(review: JsonObject) -> bytes:
    return json.dumps(review).encode()
