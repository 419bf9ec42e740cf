"""Which error a failed answer becomes: by its code and reason, never by its words."""

import json

import msgspec
import pytest

from quintet.kube import errors
from quintet.kube.client import watch_error

MESSAGES = {
    "as the server words it": 'configmaps "a" already exists',
    "scrambled": "xirp qwo 409 not found already exists the object has been modified",
    "absent": "",
}
ANSWERS = [
    (400, "BadRequest", errors.BadRequest),
    (401, "Unauthorized", errors.Unauthorized),
    (403, "Forbidden", errors.Forbidden),
    (404, "NotFound", errors.NotFound),
    (405, "MethodNotAllowed", errors.Unsupported),
    (406, "NotAcceptable", errors.Unsupported),
    (409, "Conflict", errors.Conflict),
    (409, "AlreadyExists", errors.AlreadyExists),
    (410, "Gone", errors.Gone),
    (410, "Expired", errors.Gone),
    (413, "RequestEntityTooLarge", errors.TooLarge),
    (415, "UnsupportedMediaType", errors.Unsupported),
    (418, "Teapot", errors.ApiError),
    (422, "Invalid", errors.Invalid),
    (429, "TooManyRequests", errors.TooManyRequests),
    (500, "InternalError", errors.ServerFault),
    (503, "ServiceUnavailable", errors.ServerFault),
    (504, "Timeout", errors.ServerFault),
    # Without a reason, and with one that nobody has heard of, the code decides.
    (302, "", errors.ApiError),
    (404, "", errors.NotFound),
    (409, "Shy", errors.Conflict),
    (503, "", errors.ServerFault),
    # A webhook may choose its own code; the reason says what it means.
    (400, "Invalid", errors.Invalid),
]


def status(**fields: object) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", **fields}).encode()


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize(("code", "reason", "want"), ANSWERS)
def test_status_code_and_reason_select_the_error_class(code, reason, want, message):
    error = errors.error_for("GET /x", code, status(code=code, reason=reason, message=message))

    assert type(error) is want
    assert error.message == message
    assert str(error).startswith(f"GET /x: {code} ")


def test_every_api_error_class_is_selected_by_some_response():
    def family(kind: type) -> set[type]:
        return {kind}.union(*(family(child) for child in kind.__subclasses__()))

    assert family(errors.ApiError) == {want for _, _, want in ANSWERS}


BODIES = {
    "HTML of a proxy": (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
    "nothing": (b"", ""),
    "bytes that are no text": (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
    "JSON with bytes that are no text": (b'{"message":"\xff"}', '{"message":"\N{REPLACEMENT CHARACTER}"}'),
    "JSON that is no object": (b"[1]", "[1]"),
    "a Status of the wrong shape": (b'{"message":7}', '{"message":7}'),
    "a very long page": (b"x" * 9000, "x" * 200),
}


@pytest.mark.parametrize(("body", "want_message"), BODIES.values(), ids=BODIES)
def test_body_that_is_not_a_status_gives_the_class_of_the_code(body, want_message):
    error = errors.error_for("GET /x", 502, body)

    assert type(error) is errors.ServerFault
    assert (error.status.code, error.message) == (502, want_message)


def test_null_details_count_as_absent():
    for details in (None, {"causes": None}):
        error = errors.error_for("GET /x", 404, status(code=404, reason="NotFound", details=details))
        assert (type(error), error.causes, error.retry_after) == (errors.NotFound, (), None)


DELAYS = {
    "neither": (None, None, None),
    "only the header": ("7", None, 7.0),
    "only the details": (None, 3, 3.0),
    "the header before the details": ("7", 3, 7.0),
    "zero is no delay": ("0", 0, None),
    "a date is not understood": ("Wed, 21 Oct 2015 07:28:00 GMT", None, None),
    "rubbish falls back to the details": ("soon", 3, 3.0),
    "digits of other scripts that are no numbers": ("²", None, None),
    "a negative number is not understood": ("-5", None, None),
}


@pytest.mark.parametrize(("header", "seconds", "want"), DELAYS.values(), ids=DELAYS)
def test_retry_after_comes_from_header_or_details(header, seconds, want):
    details = {"retryAfterSeconds": seconds} if seconds is not None else {}

    error = errors.error_for("GET /x", 429, status(code=429, details=details), header)

    assert error.retry_after == want


def test_causes_have_fields():
    cause = {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.replicas"}

    error = errors.error_for("POST /x", 422, status(code=422, reason="Invalid", details={"causes": [cause]}))

    assert error.causes == (errors.Cause("FieldValueRequired", "Required value", "spec.replicas"),)


@pytest.mark.parametrize(("reason", "want"), [("NamespaceTerminating", True), ("Other", False)])
def test_terminating_namespace_is_recognised_by_its_cause(reason, want):
    body = status(code=403, reason="Forbidden", details={"causes": [{"reason": reason}]})

    error = errors.error_for("POST /x", 403, body)

    assert isinstance(error, errors.Forbidden)
    assert error.namespace_terminating is want


def test_watch_error_event_has_the_same_class_as_a_response():
    line = msgspec.Raw(status(code=410, reason="Expired", message="too old resource version"))

    assert type(watch_error("WATCH /x", line)) is errors.Gone


def test_config_error_message_ends_with_next_step():
    error = errors.ConfigError("no cluster is configured", "run `quintet up`")

    assert (error.message, error.next_step) == ("no cluster is configured", "run `quintet up`")
    assert str(error) == "no cluster is configured: run `quintet up`"
