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


def test_log_tail_keeps_the_end():
    assert tail(b"short") == "short"
    assert tail(b"x" * 10_000 + b"end").endswith("xend")
    assert len(tail(b"x" * 10_000)) == LOG_BYTES


def test_log_tail_starts_at_a_whole_character():
    assert tail("ü".encode() * LOG_BYTES + b"x") == "ü" * ((LOG_BYTES - 1) // 2) + "x"


def test_log_with_invalid_utf8_is_decoded():
    assert tail(b"\xff\xfe ok").endswith(" ok")


def test_last_verdict_has_one_series_which_is_removed_with_the_checkup():
    verdicts = LastVerdicts()
    verdicts.show(KEY, Verdict.PASSED)
    assert shown("Passed") == 1
    verdicts.show(KEY, Verdict.FAILED)
    assert (shown("Passed"), shown("Failed")) == (None, 1)
    verdicts.forget(KEY)
    verdicts.forget(KEY)
    assert (shown("Passed"), shown("Failed")) == (None, None)
