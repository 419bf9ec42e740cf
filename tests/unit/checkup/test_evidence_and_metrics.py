"""The ends of logs, and numbers that go with their checkup."""

import pytest
from prometheus_client import REGISTRY

from quintet.apis.checkup import Verdict
from quintet.apis.checkup.evidence import LOG_BYTES
from quintet.apis.meta import ObjectKey
from quintet.controllers.checkup.evidence import read_log, tail
from quintet.controllers.checkup.metrics import LastVerdicts
from unit.checkup.observations import running

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


class LogServer:
    """Answers like the API server: the beginning of the last lines, up to a limit."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    async def logs(self, key: ObjectKey, container: str, *, lines: int, limit: int) -> bytes:
        return b"".join(self._lines[-lines:])[:limit]


@pytest.mark.parametrize("length", [10, 3_000, 16_000, 90_000])
async def test_evidence_is_the_end_of_the_log_whatever_the_length_of_its_lines(length):
    lines = [f"{number:06}".encode() + b"x" * length + b"\n" for number in range(300)]
    found = await read_log(LogServer(lines), running(), "checkup")
    assert found.tail.encode() == b"".join(lines[-100:])[-LOG_BYTES:]


def test_last_verdict_has_one_series_which_is_removed_with_the_checkup():
    verdicts = LastVerdicts()
    verdicts.show(KEY, Verdict.PASSED)
    assert shown("Passed") == 1
    verdicts.show(KEY, Verdict.FAILED)
    assert (shown("Passed"), shown("Failed")) == (None, 1)
    verdicts.forget(KEY)
    verdicts.forget(KEY)
    assert (shown("Passed"), shown("Failed")) == (None, None)
