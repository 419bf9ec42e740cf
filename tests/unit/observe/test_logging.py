"""What a log line looks like, for machines and for people."""

import json
import logging
import sys

import pytest

from quintet.apis.meta import ObjectKey
from quintet.observe.logging import JsonFormatter, TextFormatter, reconcile_context, set_up, toggle_debug

KEY = ObjectKey("shop", "basket")


def record(
    message: str, *arguments: object, level: int = logging.INFO, error: object = None, **extra: object
):
    made = logging.getLogger("quintet.test").makeRecord(
        "quintet.test", level, __file__, 1, message, arguments, error, extra=extra
    )
    made.created = 1767225600.25
    return made


def raised(error: Exception):
    try:
        raise error
    except Exception:
        return sys.exc_info()


def as_json(made: logging.LogRecord) -> dict[str, object]:
    text = JsonFormatter().format(made)
    assert "\n" not in text
    return json.loads(text)


def test_json_line_has_time_level_message_and_logger():
    line = as_json(record("Applying %s", "Deployment", level=logging.WARNING, resource="deployments"))

    assert line == {
        "ts": "2026-01-01T00:00:00.250Z",
        "level": "warning",
        "msg": "Applying Deployment",
        "logger": "quintet.test",
        "resource": "deployments",
    }
    assert list(line)[:3] == ["ts", "level", "msg"]


def test_line_inside_reconcile_context_has_its_fields():
    with reconcile_context("jsonserver", KEY, "r-1"):
        inside = as_json(record("Creating"))
    outside = as_json(record("Waiting"))

    assert {name: inside[name] for name in ("controller", "namespace", "name", "reconcileID")} == {
        "controller": "jsonserver",
        "namespace": "shop",
        "name": "basket",
        "reconcileID": "r-1",
    }
    assert "controller" not in outside


def test_exception_adds_error_and_stacktrace():
    line = as_json(record("Failed", error=raised(ValueError("no\nsuch thing"))))

    assert line["error"] == "no\nsuch thing"
    assert line["stacktrace"].splitlines()[-2:] == ["ValueError: no", "such thing"]


def test_exception_without_message_is_logged_by_class_name():
    assert as_json(record("Failed", error=raised(KeyError())))["error"] == "KeyError"


def test_line_without_exception_has_no_error():
    assert "error" not in as_json(record("Failed", error=(None, None, None)))


def test_extra_field_cannot_overwrite_standard_fields():
    line = as_json(record("Applying", level=logging.ERROR, ts="never", logger="somebody", error_code=7))

    assert (line["ts"], line["logger"], line["error_code"]) == ("2026-01-01T00:00:00.250Z", "quintet.test", 7)


def test_value_that_is_not_json_is_logged_as_text():
    assert as_json(record("Applying", path=KEY, kind=ValueError))["kind"] == "<class 'ValueError'>"


def test_text_format_has_one_line_and_a_traceback_below():
    with reconcile_context("jsonserver", ObjectKey("", "basket"), "r-1"):
        plain = TextFormatter().format(record("Creating\nnow", resource="services"))
        failed = TextFormatter().format(record("Failed", error=raised(ValueError("no"))))

    assert plain.split(maxsplit=1)[1] == (
        r"INFO    Creating\nnow  controller=jsonserver name=basket reconcileID=r-1 resource=services"
    )
    assert failed.splitlines()[1] == "Traceback (most recent call last):"
    assert failed.splitlines()[-1] == "ValueError: no"


@pytest.mark.parametrize(("style", "want"), [("json", '"msg": "hello"'), ("text", "INFO    hello")])
def test_set_up_logs_to_stderr(style, want, capsys):
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        set_up(style)
        logging.getLogger("quintet.test").info("hello")
        logging.getLogger("quintet.test").debug("too much")
    finally:
        # Handlers of pytest itself were taken off; they come back as they were.
        root.handlers[:] = handlers
        root.setLevel(level)

    shown = capsys.readouterr()
    assert want in shown.err
    assert "too much" not in shown.err
    assert shown.out == ""


def test_toggled_level_is_debug_and_then_the_one_before():
    root = logging.getLogger()
    before = root.level
    try:
        root.setLevel(logging.WARNING)
        toggle_debug()
        assert root.level == logging.DEBUG
        toggle_debug()
        assert root.level == logging.WARNING
    finally:
        root.setLevel(before)
