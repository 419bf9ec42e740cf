"""What clients of the metrics endpoint get, with and without a token."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from quintet.clock import SystemClock
from quintet.observe.health import HealthServer
from quintet.observe.metrics_server import Denial, MetricsServer


async def authorize(token: str, path: str, verb: str) -> Denial | None:
    assert (path, verb) in {("/metrics", "get"), ("/metrics", "head")}
    return None if token == "good" else Denial(int(token), "no")


@pytest.fixture
async def url() -> AsyncIterator[str]:
    server = MetricsServer("127.0.0.1", 0, SystemClock(), authorize)
    yield f"http://127.0.0.1:{await server.start()}"
    await server.stop()


async def ask(url: str, authorization: str = "", method: str = "GET") -> tuple[int, str, str]:
    headers = {"Authorization": authorization} if authorization else {}
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as answer:
        return answer.status, await answer.text(), answer.headers.get("WWW-Authenticate", "")


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Basic Z29vZDo=", "good"])
async def test_request_without_bearer_token_is_unauthorized(url, authorization):
    status, text, challenge = await ask(f"{url}/metrics", authorization)
    assert (status, text, challenge) == (401, "send a bearer token of the cluster\n", "Bearer")


@pytest.mark.parametrize("authorization", ["Bearer good", "bearer good", "Bearer  good"])
async def test_request_with_accepted_token_gets_metrics(url, authorization):
    status, text, _ = await ask(f"{url}/metrics", authorization)
    assert status == 200
    assert "controller_runtime_reconcile_total" in text


@pytest.mark.parametrize(("code", "challenge"), [(401, "Bearer"), (403, ""), (503, "")])
async def test_denial_is_the_response(url, code, challenge):
    assert await ask(f"{url}/metrics", f"Bearer {code}") == (code, "no\n", challenge)


async def test_head_is_authorized_like_get(url):
    assert (await ask(f"{url}/metrics", "Bearer good", "HEAD"))[:2] == (200, "")
    assert (await ask(f"{url}/metrics", "Bearer 403", "HEAD"))[0] == 403


@pytest.mark.parametrize(("path", "method", "status"), [("/healthz", "GET", 404), ("/metrics", "POST", 405)])
async def test_other_paths_and_methods_are_refused_before_the_token_is_reviewed(url, path, method, status):
    assert (await ask(url + path, "Bearer 403", method))[0] == status


async def test_plain_server_needs_no_token():
    server = MetricsServer("127.0.0.1", 0, SystemClock())
    try:
        assert (await ask(f"http://127.0.0.1:{await server.start()}/metrics"))[0] == 200
    finally:
        await server.stop()


async def test_health_server_without_metrics_serves_only_health():
    health = HealthServer("127.0.0.1", 0, SystemClock(), metrics=False)
    url = f"http://127.0.0.1:{await health.start()}"
    try:
        assert (await ask(f"{url}/metrics"))[:2] == (404, "not found: the paths are /healthz, /readyz\n")
        assert (await ask(f"{url}/healthz"))[0] == 200
    finally:
        await health.stop()
