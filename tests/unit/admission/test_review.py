"""What is answered to a review, whatever the review is like."""

import base64
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.admission import review
from quintet.admission.review import (
    Admission,
    AdmissionRequest,
    InvalidReviewError,
    Operation,
    ValidationResult,
)
from quintet.apis.fields import SPEC, ErrorType, FieldError, FieldErrors
from unit.admission.sample import ADMISSION, SENTENCE, WARNING, WIDGETS, a_review, encoded


def validated(asked, admission=ADMISSION):
    answer = json.loads(review.validate(admission, encoded(asked)))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == asked["request"]["uid"]
    return answer["response"]


def mutated(asked, admission=ADMISSION):
    return json.loads(review.mutate(admission, encoded(asked)))["response"]


def test_valid_object_is_allowed_without_message():
    assert validated(a_review(text="x")) == {"uid": "705ab4f5", "allowed": True}


def test_field_error_is_denied_with_422_message_and_field():
    response = validated(a_review(text=""))
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert SENTENCE in status["message"]
    assert status["details"] == {
        "kind": "Widget",
        "name": "w",
        "causes": [
            {
                "reason": "FieldValueInvalid",
                "message": f'Invalid value: "": {SENTENCE}',
                "field": "spec.text",
            }
        ],
    }


def test_plain_message_is_denied_with_403():
    response = validated(a_review(mode="forbidden"))
    assert response["status"] == {"code": 403, "reason": "Forbidden", "message": "Not for ada."}


def test_all_validation_errors_are_reported_together():
    field_error = FieldError(SPEC, ErrorType.REQUIRED, message="must be set")
    admission = Admission(WIDGETS, lambda _: ValidationResult((field_error, "And a sentence.")))
    status = validated(a_review(), admission)["status"]
    assert status["message"] == 'Widget "w" is invalid: spec: Required value: must be set; And a sentence.'
    assert [cause.get("field") for cause in status["details"]["causes"]] == ["spec", None]


def test_warnings_are_sent_with_allow_and_deny():
    assert validated(a_review(text="x", replicas=11)) == {
        "uid": "705ab4f5",
        "allowed": True,
        "warnings": [WARNING],
    }
    assert validated(a_review(text="", replicas=11))["warnings"] == [WARNING]


def test_validator_sees_user_operation_and_objects():
    seen: list[AdmissionRequest] = []

    def remember(request: AdmissionRequest) -> ValidationResult:
        seen.append(request)
        return ValidationResult()

    asked = a_review("UPDATE", old={"spec": {"text": "old"}}, text="new")
    asked["request"] |= {"dryRun": True, "subResource": "scale"}
    validated(asked, Admission(WIDGETS, remember))
    request = seen[0]
    assert request.operation is Operation.UPDATE
    assert (request.object["spec"], request.old_object) == ({"text": "new"}, {"spec": {"text": "old"}})
    assert (request.namespace, request.name) == ("shop", "w")
    assert (request.dry_run, request.subresource) == (True, "scale")
    assert (request.user.username, request.user.groups) == ("ada", ("system:authenticated",))
    assert request.user.extra == {"k8s.io/pod-name": ("p",)}


def test_delete_review_has_no_object():
    asked = a_review("DELETE", old={"spec": {}})
    asked["request"]["object"] = None
    admission = Admission(WIDGETS, lambda request: ValidationResult(() if request.object == {} else ("?",)))
    assert validated(asked, admission)["allowed"] is True


def test_exception_in_rule_denies_object_and_is_logged(caplog):
    response = validated(a_review(mode="crash"))
    assert response["allowed"] is False
    assert (response["status"]["code"], response["status"]["reason"]) == (500, "InternalError")
    assert "failed unexpectedly (RuntimeError)" in response["status"]["message"]
    assert "this widget crashes its validation" in caplog.text


def test_defaults_are_returned_as_json_patch():
    response = mutated(a_review(text="x"))
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    patch = json.loads(base64.b64decode(response["patch"]))
    assert patch == [{"op": "add", "path": "/spec/replicas", "value": 1}]


@pytest.mark.parametrize(
    ("asked", "admission"),
    [
        pytest.param(a_review(replicas=3), ADMISSION, id="nothing to fill in"),
        pytest.param(a_review(), Admission(WIDGETS, ADMISSION.validate), id="a kind without defaults"),
        pytest.param(
            {**a_review(), "request": {**a_review()["request"], "subResource": "status"}},
            ADMISSION,
            id="a subresource",
        ),
    ],
)
def test_no_patch_is_sent_when_nothing_changes(asked, admission):
    assert mutated(asked, admission) == {"uid": "705ab4f5", "allowed": True}


def test_default_function_can_deny_object():
    def refuse(obj, operation):
        errors = FieldErrors()
        errors.invalid(SPEC.child("replicas"), -1, "Invalid replicas number.")
        errors.raise_if_any("Widget w")
        return obj

    response = mutated(a_review(), Admission(WIDGETS, ADMISSION.validate, refuse))
    assert response["allowed"] is False
    assert "Invalid replicas number." in response["status"]["message"]


def changed(**request):
    asked = a_review(text="x")
    return encoded({**asked, "request": {**asked["request"], **request}})


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"", "not an AdmissionReview", id="nothing"),
        pytest.param(b"{", "not an AdmissionReview", id="half an object"),
        pytest.param(b"\xff\xfe", "not an AdmissionReview", id="no text"),
        pytest.param(b"[]", "not an AdmissionReview", id="a list"),
        pytest.param(b"[" * 100_000, "not an AdmissionReview", id="a tower of brackets"),
        pytest.param(encoded({**a_review(), "apiVersion": "admission.k8s.io/v1beta1"}), "v1beta1", id="old"),
        pytest.param(encoded({**a_review(), "kind": "Pod"}), "got", id="another kind"),
        pytest.param(encoded({**a_review(), "kind": "x" * 9000 + "\n"}), "got", id="a very long kind"),
        pytest.param(encoded({**a_review(), "request": None}), "not an AdmissionReview", id="a null request"),
        pytest.param(b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "no request", id="none"),
        pytest.param(changed(uid=""), "no uid", id="an empty uid"),
        pytest.param(changed(uid=5), "not an AdmissionReview", id="a uid of the wrong type"),
        pytest.param(changed(operation="STEAL"), "not an AdmissionReview", id="an unknown operation"),
        pytest.param(changed(object="text"), "not an AdmissionReview", id="an object that is none"),
        pytest.param(changed(resource={"group": "", "resource": "pods"}), "only accepts widgets.test.quintet.dev", id="pods"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("answer", [review.mutate, review.validate])
def test_invalid_review_is_rejected_with_one_line(answer, body, want):
    with pytest.raises(InvalidReviewError) as refusal:
        answer(ADMISSION, body)
    text = str(refusal.value)
    assert want in text, text
    assert "\n" not in text
    assert len(text) < 400


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_bad_review(body):
    with pytest.raises(InvalidReviewError):
        review.validate(ADMISSION, body)


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_arbitrary_object_never_stops_server(obj):
    asked = a_review()
    asked["request"]["object"] = obj
    try:
        response = json.loads(review.validate(ADMISSION, encoded(asked)))["response"]
    except InvalidReviewError:
        assert not isinstance(obj, dict)
    else:
        assert response["allowed"] in (True, False)


@given(st.lists(st.text(max_size=600), max_size=30))
def test_warnings_fit_header_and_terminal(texts):
    shown = review.format_warnings(tuple(texts))
    assert len(shown) <= 15
    assert all(0 < len(text) <= 256 for text in shown)
    assert all(text.isprintable() for text in shown)
    assert sum(map(len, shown)) < 4096


def test_long_warning_is_cut_between_words():
    (text,) = review.format_warnings((f"{'word ' * 100}",))
    assert text.endswith("word…")
    (text,) = review.format_warnings(("x" * 1000,))
    assert text == "x" * 255 + "…"
    assert review.format_warnings(("two\nlines\x1b[31m", "two lines [31m")) == ("two lines [31m",)
    assert review.format_warnings(tuple(f"w{i}" for i in range(20)))[-1] == "… and 6 more warnings"


def test_response_decodes_as_admission_review():
    answer = msgspec.json.decode(
        review.validate(ADMISSION, encoded(a_review(text="x"))), type=review.AdmissionReview
    )
    assert answer.response.allowed
