"""Decode AdmissionReviews, call the kind's defaulting or validation, encode the response. No I/O.

Every kind declares one `Admission` in the module of its name; the rules are pure functions in
`apis/<kind>`. If a rule raises an exception, the object is rejected and the exception is logged.
"""

import base64
import copy
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.fields import FieldError, InvalidObjectError, ValidationResult
from quintet.apis.jsonpatch import diff, same
from quintet.apis.meta import JsonObject, ObjectKey, Resource, Struct
from quintet.kube.errors import Cause, Status, StatusDetails

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
# The API server truncates a warning at 256 characters and drops warnings beyond 4096 in total.
LONGEST_WARNING = 256
MOST_WARNINGS = 15

log = logging.getLogger(__name__)


class InvalidReviewError(ValueError):
    """Raised for a body that is not an AdmissionReview, or not one for this webhook; one line of text."""


class Operation(StrEnum):
    """The operation that the API server asks about."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class UserInfo(Struct, frozen=True):
    """The user who sent the request to the API server."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """The request of an AdmissionReview, as kinds validate it."""

    operation: Operation
    object: JsonObject
    """The object to be stored; empty for a deletion."""
    old_object: JsonObject | None = None
    """The stored object; None for a creation."""
    user: UserInfo = field(default_factory=UserInfo)
    namespace: str = ""
    name: str = ""
    """Empty if the API server generates the name from `generateName`."""
    dry_run: bool = False
    subresource: str = ""

    @property
    def spec_unchanged(self) -> bool:
        """Whether this is an update that leaves `spec` as it is.

        Such updates are always allowed: users can label an object that bypassed the webhooks, and the
        controller can remove its finalizer.
        """
        return self.old_object is not None and same(self.old_object.get("spec"), self.object.get("spec"))


@dataclass(frozen=True, slots=True)
class Admission:
    """The webhooks of one kind: its validation and its defaults."""

    resource: Resource
    validate: Callable[[AdmissionRequest], ValidationResult]
    default: Callable[[JsonObject, Operation], JsonObject] | None = None
    """Returns the object with defaults for what the user left out; may raise `InvalidObjectError`."""
    alias_warnings: Callable[[JsonObject], tuple[str, ...]] | None = None
    """Warnings about deprecated field names, which `default` rewrites before `validate` can see them."""
    operations: tuple[Operation, ...] = (Operation.CREATE, Operation.UPDATE)
    too_large: str = "The object is too large."
    """The error for a review that exceeds the size limit."""
    default_unchanged: bool = True
    """Whether `default` is also called for updates that leave `spec` as it is."""
    variant: str = ""
    """Distinguishes several admissions of one resource, each for other namespaces."""
    validation_namespaces: JsonObject | None = None
    """A label selector of the namespaces of `validate`; None for all. `default` applies everywhere."""

    @property
    def path(self) -> str:
        """The URL path of its webhooks below `/mutate` and `/validate`."""
        return f"{self.resource.qualified}/{self.variant}" if self.variant else self.resource.qualified


class _GroupResource(Struct, frozen=True):
    group: str = ""
    resource: str = ""


class _ReviewRequest(Struct, frozen=True):
    uid: str
    operation: Operation
    resource: _GroupResource
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    user_info: UserInfo = UserInfo()
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None
    sub_resource: str = ""


class _ReviewEnvelope(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: msgspec.Raw = msgspec.Raw()  # decoded after the version has been checked


class AdmissionResponse(Struct, frozen=True):
    """The response of an AdmissionReview."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch_type: str | None = None
    patch: str | None = None
    warnings: tuple[str, ...] = ()


class AdmissionReview(Struct, frozen=True, omit_defaults=False):
    """An AdmissionReview that carries a response."""

    response: AdmissionResponse
    api_version: str = API_VERSION
    kind: str = KIND


_decode_envelope = msgspec.json.Decoder(_ReviewEnvelope).decode
_decode_request = msgspec.json.Decoder(_ReviewRequest).decode
_encode = msgspec.json.Encoder().encode
# The API server writes the uid first, before anything that a user controls.
_UID = re.compile(rb'"request":\s*\{\s*"uid":\s*"([0-9A-Za-z-]{1,64})"')


def mutate(admission: Admission, body: bytes) -> bytes:
    """Return the response of the mutating webhook: a patch that sets defaults."""
    return _respond(admission, body, _set_defaults)


def validate(admission: Admission, body: bytes) -> bytes:
    """Return the response of the validating webhook."""
    return _respond(admission, body, _validate)


def reject_unread(head: bytes | bytearray, code: int, reason: str, message: str) -> bytes | None:
    """Return a response that rejects a review which was not decoded; None if its uid cannot be found.

    The response shows the message to the user; an HTTP error would only show "Internal error occurred".
    """
    found = _UID.search(head)
    if found is None:
        return None
    return _encode_response(AdmissionResponse(found.group(1).decode(), False, Status(message, reason, code)))


def _respond(
    admission: Admission,
    body: bytes,
    handler: Callable[[Admission, str, AdmissionRequest], AdmissionResponse],
) -> bytes:
    review = _read_request(admission, body)
    request = AdmissionRequest(
        operation=review.operation,
        object=review.object or {},
        old_object=review.old_object,
        user=review.user_info,
        namespace=review.namespace,
        name=review.name,
        dry_run=bool(review.dry_run),
        subresource=review.sub_resource,
    )
    try:
        response = handler(admission, review.uid, request)
    except InvalidObjectError as error:
        response = _rejection(admission, review.uid, request, error.errors, ())
    except Exception as error:
        log.exception(
            "Validation raised an exception; the object is rejected",
            extra={
                "resource": admission.resource.qualified,
                "object": str(ObjectKey(request.namespace, request.name)),
                "uid": review.uid,
            },
        )
        text = (
            f"validation of this {admission.resource.kind} failed unexpectedly ({type(error).__name__}); "
            f"see the operator's log for request uid {review.uid}"
        )
        response = AdmissionResponse(review.uid, False, Status(text, "InternalError", 500))
    return _encode_response(response)


def _read_request(admission: Admission, body: bytes) -> _ReviewRequest:
    try:
        envelope = _decode_envelope(body)
        if (envelope.api_version, envelope.kind) != (API_VERSION, KIND):
            raise InvalidReviewError(
                f"expected {API_VERSION} {KIND}, got {envelope.api_version!r} {envelope.kind!r}"[:300]
            )
        if not envelope.request:
            raise InvalidReviewError("the AdmissionReview has no request")
        review = _decode_request(envelope.request)
    except DECODE_ERRORS as error:
        raise InvalidReviewError(f"not an AdmissionReview: {error}".replace("\n", " ")) from error
    if not review.uid:
        raise InvalidReviewError("the request has no uid")
    resource = admission.resource
    if (review.resource.group, review.resource.resource) != (resource.group, resource.plural):
        raise InvalidReviewError(f"this webhook only accepts {resource.qualified}")
    return review


def _set_defaults(admission: Admission, uid: str, request: AdmissionRequest) -> AdmissionResponse:
    if admission.default is None or request.subresource or not request.object:
        return AdmissionResponse(uid, True)
    if request.spec_unchanged and not admission.default_unchanged:
        return AdmissionResponse(uid, True)
    # `default` gets a copy, because it may change its argument in place.
    after = admission.default(copy.deepcopy(request.object), request.operation)
    warnings = (
        format_warnings(admission.alias_warnings(request.object))
        if admission.alias_warnings is not None
        else ()
    )
    operations = diff(request.object, after)
    if not operations:
        return AdmissionResponse(uid, True, warnings=warnings)
    patch = base64.b64encode(_encode(operations)).decode()
    return AdmissionResponse(uid, True, patch_type="JSONPatch", patch=patch, warnings=warnings)


def _validate(admission: Admission, uid: str, request: AdmissionRequest) -> AdmissionResponse:
    result = admission.validate(request)
    warnings = format_warnings(result.warnings)
    if result.errors:
        return _rejection(admission, uid, request, result.errors, warnings)
    return AdmissionResponse(uid, True, warnings=warnings)


def _rejection(
    admission: Admission,
    uid: str,
    request: AdmissionRequest,
    errors: tuple[FieldError | str, ...],
    warnings: tuple[str, ...],
) -> AdmissionResponse:
    """Return a 422 response with one cause per error if any is a `FieldError`, else a 403 response."""
    kind, name = admission.resource.kind, request.name
    message = "; ".join(map(str, errors))
    if not any(isinstance(error, FieldError) for error in errors):
        return AdmissionResponse(uid, False, Status(message, "Forbidden", 403), warnings=warnings)
    details = StatusDetails(kind, name, causes=tuple(map(_cause, errors)))
    message = f'{kind} "{name}" is invalid: {message}'
    return AdmissionResponse(uid, False, Status(message, "Invalid", 422, details), warnings=warnings)


def _cause(error: FieldError | str) -> Cause:
    if isinstance(error, str):
        return Cause("FieldValueInvalid", error)
    return Cause(error.type.reason, error.cause, str(error.path))


def format_warnings(warnings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the warnings fit for an HTTP header and a terminal: unique, short, each on one line."""
    texts = list(dict.fromkeys(filter(None, map(_one_line, warnings))))
    if len(texts) > MOST_WARNINGS:
        texts[MOST_WARNINGS - 1 :] = [f"… and {len(texts) - MOST_WARNINGS + 1} more warnings"]
    return tuple(texts)


def _one_line(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    shown = " ".join(shown.split())
    if len(shown) <= LONGEST_WARNING:
        return shown
    kept = shown[: LONGEST_WARNING - 1].rpartition(" ")[0]
    # A text without a space in its second half is cut in the middle of a word.
    return f"{kept if len(kept) > LONGEST_WARNING // 2 else shown[: LONGEST_WARNING - 1]}…"


def _encode_response(response: AdmissionResponse) -> bytes:
    return _encode(AdmissionReview(response))
