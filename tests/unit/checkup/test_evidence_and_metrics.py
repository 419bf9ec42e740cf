"""The ends of logs, and numbers that go with their checkup."""

from prometheus_client import REGISTRY

from quintet.apis.checkup import Verdict
from quintet.apis.checkup.evidence import LOG_BYTES
from quintet.apis.meta import ObjectKey
from quintet.controllers.checkup.evidence import tail
from quintet.controllers.checkup.metrics import LastVerdicts

KEY = ObjectKey("ns", "unit-test")


def shown(verdict: str) -> float | None:
    labels = {"namespace": KEY.namespace, "name": KEY.name, "verdict": verdict}
    return REGISTRY.get_sample_value("quintet_checkup_last_verdict", labels)


def test_a_log_keeps_its_end():
    assert tail(b"short") == "short"
    assert tail(b"x" * 10_000 + b"end").endswith("xend")
    assert len(tail(b"x" * 10_000)) == LOG_BYTES


def test_a_log_is_not_cut_in_the_middle_of_a_character():
    assert tail("ü".encode() * LOG_BYTES + b"x") == "ü" * ((LOG_BYTES - 1) // 2) + "x"


def test_bytes_that_are_no_text_do_no_harm():
    assert tail(b"\xff\xfe ok").endswith(" ok")


def test_a_checkup_has_one_verdict_and_takes_it_with_it():
    verdicts = LastVerdicts()
    verdicts.show(KEY, Verdict.PASSED)
    assert shown("Passed") == 1
    verdicts.show(KEY, Verdict.FAILED)
    assert (shown("Passed"), shown("Failed")) == (None, 1)
    verdicts.forget(KEY)
    verdicts.forget(KEY)
    assert (shown("Passed"), shown("Failed")) == (None, None)
