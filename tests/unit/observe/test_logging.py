"""What a log line looks like, for machines and for people."""

import json
import logging
import sys

import pytest

from quintet.apis.meta import ObjectKey
from quintet.observe.logging import JsonFormatter, TextFormatter, reconciling, set_up

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


def test_a_json_line_says_when_how_grave_what_and_where():
    line = as_json(record("Applying %s", "Deployment", level=logging.WARNING, resource="deployments"))

    assert line == {
        "ts": "2026-01-01T00:00:00.250Z",
        "level": "warning",
        "msg": "Applying Deployment",
        "logger": "quintet.test",
        "resource": "deployments",
    }
    assert list(line)[:3] == ["ts", "level", "msg"]


def test_a_line_inside_a_reconciliation_says_which_one():
    with reconciling("jsonserver", KEY, "r-1"):
        inside = as_json(record("Creating"))
    outside = as_json(record("Waiting"))

    assert {name: inside[name] for name in ("controller", "namespace", "name", "reconcileID")} == {
        "controller": "jsonserver",
        "namespace": "shop",
        "name": "basket",
        "reconcileID": "r-1",
    }
    assert "controller" not in outside


def test_an_exception_becomes_error_and_stacktrace():
    line = as_json(record("Failed", error=raised(ValueError("no\nsuch thing"))))

    assert line["error"] == "no\nsuch thing"
    assert line["stacktrace"].splitlines()[-2:] == ["ValueError: no", "such thing"]


def test_an_exception_without_words_is_told_by_its_class():
    assert as_json(record("Failed", error=raised(KeyError())))["error"] == "KeyError"


def test_no_exception_at_all_is_no_error():
    assert "error" not in as_json(record("Failed", error=(None, None, None)))


def test_an_extra_field_cannot_forge_what_the_line_says():
    line = as_json(record("Applying", level=logging.ERROR, ts="never", logger="somebody", error_code=7))

    assert (line["ts"], line["logger"], line["error_code"]) == ("2026-01-01T00:00:00.250Z", "quintet.test", 7)


def test_a_value_that_is_no_json_is_shown_as_text():
    assert as_json(record("Applying", path=KEY, kind=ValueError))["kind"] == "<class 'ValueError'>"


def test_a_line_for_people_is_one_line_with_a_traceback_below():
    with reconciling("jsonserver", ObjectKey("", "basket"), "r-1"):
        plain = TextFormatter().format(record("Creating\nnow", resource="services"))
        failed = TextFormatter().format(record("Failed", error=raised(ValueError("no"))))

    assert plain.split(maxsplit=1)[1] == (
        r"INFO    Creating\nnow  controller=jsonserver name=basket reconcileID=r-1 resource=services"
    )
    assert failed.splitlines()[1] == "Traceback (most recent call last):"
    assert failed.splitlines()[-1] == "ValueError: no"


@pytest.mark.parametrize(("style", "want"), [("json", '"msg": "hello"'), ("text", "INFO    hello")])
def test_set_up_sends_logs_to_standard_error(style, want, capsys):
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
