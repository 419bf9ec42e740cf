"""The server answers reviews, survives everything else, and ends politely."""

import asyncio
import io
import ssl

import aiohttp
import pytest
from prometheus_client import REGISTRY

from kit.clock import VirtualClock
from kit.eventually import eventually
from quintet.admission.server import LARGEST_BODY, AdmissionServer
from quintet.admission.sources import MemoryStore, SelfSignedCertificates, ServingCertificate
from unit.admission.sample import ADMISSION, MUTATE, VALIDATE, a_review, encoded, hold

JSON = {"Content-Type": "application/json"}


async def ask(session, path=VALIDATE, **spec):
    async with session.post(path, json=a_review(**spec)) as answer:
        assert answer.status == 200, await answer.text()
        return (await answer.json())["response"]


def count(code: int, path: str = VALIDATE) -> float:
    labels = {"webhook": path, "code": str(code)}
    return REGISTRY.get_sample_value("controller_runtime_webhook_requests_total", labels) or 0


async def test_both_webhooks_of_a_kind_respond(session):
    assert (await ask(session, text="x"))["allowed"] is True
    assert (await ask(session, text=""))["allowed"] is False
    assert "patch" in await ask(session, MUTATE, text="x")


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "want"),
    [
        pytest.param("GET", VALIDATE, {}, b"", 405, id="only POST"),
        pytest.param("POST", "/validate/pods", JSON, b"{}", 404, id="only our kinds"),
        pytest.param("POST", "/", JSON, b"{}", 404, id="only our paths"),
        pytest.param("POST", VALIDATE, {"Content-Type": "text/plain"}, b"{}", 415, id="only JSON"),
        pytest.param("POST", VALIDATE, {}, b"{}", 415, id="JSON must be said"),
        pytest.param("POST", VALIDATE, JSON, b"{}", 400, id="only reviews"),
        pytest.param("POST", VALIDATE, JSON, b"", 400, id="nothing is no review"),
        pytest.param("POST", VALIDATE, JSON, b" " * (LARGEST_BODY + 1), 413, id="4 MiB and a byte"),
    ],
)
async def test_other_requests_are_rejected(session, method, path, headers, body, want):
    async with session.request(method, path, data=io.BytesIO(body), headers=headers) as answer:
        text = await answer.text()
    assert answer.status == want, text
    assert len(text.strip().splitlines()) == 1, text
    assert (await ask(session, text="x"))["allowed"] is True, "and the next one is answered"


async def test_review_of_almost_4_mib_is_accepted(session):
    body = encoded(a_review(text="x"))
    async with session.post(VALIDATE, data=io.BytesIO(body.ljust(LARGEST_BODY - 1)), headers=JSON) as answer:
        assert answer.status == 200, await answer.text()


async def test_oversized_review_is_denied_with_its_uid(session):
    body = encoded(a_review(text="x" * LARGEST_BODY))
    async with session.post(VALIDATE, data=io.BytesIO(body), headers=JSON) as answer:
        response = (await answer.json())["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("705ab4f5", False, 413)
    assert response["status"]["message"].startswith("The object is too large."), response


async def test_exception_in_rule_is_a_response(session):
    response = await ask(session, mode="crash")
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert (await ask(session, text="x"))["allowed"] is True


async def test_hanging_rule_times_out_without_blocking_others(serving):
    hold.clear()
    server = AdmissionServer((ADMISSION,), VirtualClock(), host="127.0.0.1", port=0, time_limit=2.0)
    server.load(serving)
    port = await server.start()
    trust = ssl.create_default_context(cadata=serving.bundle.decode())
    try:
        async with aiohttp.ClientSession(
            f"https://127.0.0.1:{port}", connector=aiohttp.TCPConnector(ssl=trust)
        ) as session:
            slow, quick = await asyncio.gather(ask(session, mode="slow"), ask(session, text="x"))
    finally:
        hold.set()
        await server.stop()
    assert quick["allowed"] is True
    assert (slow["allowed"], slow["status"]["code"], slow["status"]["reason"]) == (False, 504, "Timeout")
    assert "validation of this Widget took longer than 2 s" in slow["status"]["message"]


async def test_shutdown_finishes_pending_reviews_and_accepts_no_more(server, session, serving):
    asked = asyncio.create_task(ask(session, mode="slow", text="x"))

    def in_flight():
        name = "controller_runtime_webhook_requests_in_flight"
        assert REGISTRY.get_sample_value(name, {"webhook": VALIDATE}) == 1

    await eventually(in_flight)
    stopping = asyncio.create_task(server.stop())

    async def refused():
        trust = ssl.create_default_context(cadata=serving.bundle.decode())
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trust)
        except OSError:
            return
        writer.close()
        raise AssertionError("it still takes connections")

    await eventually(refused)
    assert not asked.done()
    hold.set()
    assert (await asked)["allowed"] is True
    await stopping


async def test_requests_are_counted_by_webhook_and_code(session):
    before = {code: count(code) for code in (200, 400, 413)}
    await ask(session, text="x")
    for body in (b"{}", b" " * (LARGEST_BODY + 1)):
        async with session.post(VALIDATE, data=io.BytesIO(body), headers=JSON):
            pass
    assert {code: count(code) - was for code, was in before.items()} == {200: 1, 400: 1, 413: 1}
    seconds = "controller_runtime_webhook_latency_seconds_count"
    assert (REGISTRY.get_sample_value(seconds, {"webhook": VALIDATE}) or 0) >= 3


async def test_server_is_ready_only_with_valid_certificate():
    clock = VirtualClock()
    server = AdmissionServer((ADMISSION,), clock)
    assert server.readiness_problem() == "the webhook certificate has not been loaded yet"
    server.load(await SelfSignedCertificates(MemoryStore(), ("localhost",)).current(clock.now()))
    assert server.readiness_problem() is None
    await clock.advance(8 * 24 * 3600)
    assert server.readiness_problem() == "the webhook certificate has expired"


async def test_mismatched_key_pair_is_rejected_and_old_one_stays(server, session, serving):
    other = await SelfSignedCertificates(MemoryStore(), ("127.0.0.1",)).current(VirtualClock().now())
    for broken in (
        ServingCertificate(serving.certificate, other.key),
        ServingCertificate(b"garbage", other.key),
    ):
        with pytest.raises((ssl.SSLError, ValueError)):
            server.load(broken)
    trust = ssl.create_default_context(cadata=serving.bundle.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trust)
    writer.close()
