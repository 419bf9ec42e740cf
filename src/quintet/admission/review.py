"""AdmissionReview in, AdmissionReview out: everything about a webhook that needs no network.

Called by `server` with the bytes of a request. A kind is declared by one `Admission`, in
the wiring module named like it; its rules are pure functions in `apis/<kind>`. An error
in such a rule refuses the one object it met and is logged: it never reaches the server.
"""

import base64
import copy
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from quintet.admission.patch import diff, same
from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.fields import FieldError, InvalidObjectError
from quintet.apis.meta import JsonObject, ObjectKey, Resource, Struct
from quintet.kube.errors import Cause, Status, StatusDetails

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
# The API server cuts a warning at 256 characters and drops all beyond 4096 together.
LONGEST_WARNING = 256
MOST_WARNINGS = 15

log = logging.getLogger(__name__)


class BadReview(ValueError):
    """Not a review, or not one for this webhook; one line that says why."""


class Operation(StrEnum):
    """What the user does to the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class UserInfo(Struct, frozen=True):
    """Who asks."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a kind is asked to judge."""

    operation: Operation
    object: JsonObject
    """As it would be stored; empty for a deletion."""
    old_object: JsonObject | None = None
    """As it is stored; None for a creation."""
    user: UserInfo = field(default_factory=UserInfo)
    namespace: str = ""
    name: str = ""
    """Empty if the server is to make one up from `generateName`."""
    dry_run: bool = False
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong (a mistake in a field, or a plain sentence), and what the user should know."""

    errors: tuple[FieldError | str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Admission:
    """The webhooks of one kind."""

    resource: Resource
    validate: Callable[[Request], Verdict]
    default: Callable[[JsonObject, Operation], JsonObject] | None = None
    """Returns the object with what the user left out; may raise `InvalidObjectError`."""
    old_names: Callable[[JsonObject], tuple[str, ...]] | None = None
    """Warnings about what `default` rewrites, which `validate` therefore never sees."""
    operations: tuple[Operation, ...] = (Operation.CREATE, Operation.UPDATE)
    too_large: str = "The object is too large."
    """Said when a review is over the limit, so that none of the rules could be asked."""
    fills_in_unchanged: bool = True
    """Whether `default` is also asked about an update that leaves the spec as it is."""
    variant: str = ""
    """Tells the admissions of one resource apart, which judge it in different namespaces."""
    validates_in: JsonObject | None = None
    """A label selector of the namespaces in which `validate` is asked; None: all. `default` always is."""

    @property
    def path(self) -> str:
        """Where its reviews are sent to, below `/mutate` and `/validate`."""
        return f"{self.resource.qualified}/{self.variant}" if self.variant else self.resource.qualified


class _GroupResource(Struct, frozen=True):
    group: str = ""
    resource: str = ""


class _Question(Struct, frozen=True):
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


class _Asked(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: msgspec.Raw = msgspec.Raw()  # decoded once it is known to be a review of this version


class Response(Struct, frozen=True):
    """The answer to one review."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch_type: str | None = None
    patch: str | None = None
    warnings: tuple[str, ...] = ()


class Review(Struct, frozen=True, omit_defaults=False):
    """A review with its answer."""

    response: Response
    api_version: str = API_VERSION
    kind: str = KIND


_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode_question = msgspec.json.Decoder(_Question).decode
_encode = msgspec.json.Encoder().encode
# The API server writes the uid first; what a user wrote comes long after it.
_UID = re.compile(rb'"request":\s*\{\s*"uid":\s*"([0-9A-Za-z-]{1,64})"')


def mutate(admission: Admission, body: bytes) -> bytes:
    """Answer with a patch that fills in what the user left out."""
    return _answer(admission, body, _patched)


def validate(admission: Admission, body: bytes) -> bytes:
    """Answer whether the object may be stored."""
    return _answer(admission, body, _judged)


def without_verdict(head: bytes | bytearray, code: int, reason: str, message: str) -> bytes | None:
    """Refuse a review that was not or could not be read; None if not even its uid is known.

    An answer shows the user the message, where an HTTP error would show "Internal error occurred".
    """
    found = _UID.search(head)
    if found is None:
        return None
    return _encoded(Response(found.group(1).decode(), False, Status(message, reason, code)))


def _answer(admission: Admission, body: bytes, judge: Callable[[Admission, str, Request], Response]) -> bytes:
    question = _question(admission, body)
    request = Request(
        operation=question.operation,
        object=question.object or {},
        old_object=question.old_object,
        user=question.user_info,
        namespace=question.namespace,
        name=question.name,
        dry_run=bool(question.dry_run),
        subresource=question.sub_resource,
    )
    try:
        response = judge(admission, question.uid, request)
    except InvalidObjectError as error:
        response = _refused(admission, question.uid, request, error.errors, ())
    except Exception as error:
        log.exception(
            "Refusing, because the check itself failed",
            extra={
                "resource": admission.resource.qualified,
                "object": str(ObjectKey(request.namespace, request.name)),
                "uid": question.uid,
            },
        )
        text = (
            f"the check of this {admission.resource.kind} failed unexpectedly ({type(error).__name__}); "
            f"the operator's log has the details under uid {question.uid}"
        )
        response = Response(question.uid, False, Status(text, "InternalError", 500))
    return _encoded(response)


def _question(admission: Admission, body: bytes) -> _Question:
    try:
        asked = _decode_asked(body)
        if (asked.api_version, asked.kind) != (API_VERSION, KIND):
            raise BadReview(f"expected {API_VERSION} {KIND}, got {asked.api_version!r} {asked.kind!r}"[:300])
        if not asked.request:
            raise BadReview("the review holds no request")
        question = _decode_question(asked.request)
    except DECODE_ERRORS as error:
        raise BadReview(f"not a review: {error}".replace("\n", " ")) from error
    if not question.uid:
        raise BadReview("the request has no uid")
    resource = admission.resource
    if (question.resource.group, question.resource.resource) != (resource.group, resource.plural):
        raise BadReview(f"this webhook is for {resource.qualified} only")
    return question


def _patched(admission: Admission, uid: str, request: Request) -> Response:
    if admission.default is None or request.subresource or not request.object:
        return Response(uid, True)
    unchanged = request.old_object is not None and same(
        request.old_object.get("spec"), request.object.get("spec")
    )
    if unchanged and not admission.fills_in_unchanged:
        return Response(uid, True)
    # A copy, so that a default that changes its argument in place is not lost.
    after = admission.default(copy.deepcopy(request.object), request.operation)
    warnings = presentable(admission.old_names(request.object)) if admission.old_names is not None else ()
    operations = diff(request.object, after)
    if not operations:
        return Response(uid, True, warnings=warnings)
    patch = base64.b64encode(_encode(operations)).decode()
    return Response(uid, True, patch_type="JSONPatch", patch=patch, warnings=warnings)


def _judged(admission: Admission, uid: str, request: Request) -> Response:
    verdict = admission.validate(request)
    warnings = presentable(verdict.warnings)
    if verdict.errors:
        return _refused(admission, uid, request, verdict.errors, warnings)
    return Response(uid, True, warnings=warnings)


def _refused(
    admission: Admission,
    uid: str,
    request: Request,
    errors: tuple[FieldError | str, ...],
    warnings: tuple[str, ...],
) -> Response:
    """422 with one cause per mistake if any is about a field, else a plain 403."""
    kind, name = admission.resource.kind, request.name
    message = "; ".join(map(str, errors))
    if not any(isinstance(error, FieldError) for error in errors):
        return Response(uid, False, Status(message, "Forbidden", 403), warnings=warnings)
    details = StatusDetails(kind, name, causes=tuple(map(_cause, errors)))
    message = f'{kind} "{name}" is invalid: {message}'
    return Response(uid, False, Status(message, "Invalid", 422, details), warnings=warnings)


def _cause(error: FieldError | str) -> Cause:
    if isinstance(error, str):
        return Cause("FieldValueInvalid", error)
    return Cause(error.kind.reason, error.cause, str(error.path))


def presentable(warnings: tuple[str, ...]) -> tuple[str, ...]:
    """Warnings as a header can carry and a terminal can show them: each once, short, on one line."""
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
    # A text without spaces, or with only a few at its start, is cut in the middle of a word.
    return f"{kept if len(kept) > LONGEST_WARNING // 2 else shown[: LONGEST_WARNING - 1]}…"


def _encoded(response: Response) -> bytes:
    return _encode(Review(response))
