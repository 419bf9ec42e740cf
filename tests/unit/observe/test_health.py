"""What a kubelet and a Prometheus are answered."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from quintet.clock import SystemClock
from quintet.observe import metrics
from quintet.observe.health import HealthServer


@pytest.fixture
async def server() -> AsyncIterator[tuple[HealthServer, str]]:
    health = HealthServer("127.0.0.1", 0, SystemClock())
    port = await health.start()
    yield health, f"http://127.0.0.1:{port}"
    await health.stop()


async def ask(url: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text(), answer.headers["Content-Type"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_endpoint_without_checks_is_healthy(server, path):
    assert (await ask(server[1] + path))[:2] == (200, "ok\n")


async def test_response_lists_all_checks_and_one_failure_gives_503(server):
    health, url = server
    health.readiness |= {
        "caches": lambda: None,
        "webhook": lambda: "the webhook certificate has not been loaded yet",
    }

    assert (await ask(url + "/readyz"))[:2] == (
        503,
        "[+] caches: ok\n[-] webhook: the webhook certificate has not been loaded yet\n",
    )
    assert (await ask(url + "/healthz"))[0] == 200, "readiness is not liveness"


async def test_check_passes_again_after_recovery(server):
    health, url = server
    problems = ["watch of widgets is dead", None]
    health.health["watches"] = lambda: problems.pop(0)

    assert [(await ask(url + "/healthz"))[0] for _ in range(2)] == [503, 200]


async def test_check_that_raises_is_reported_beside_the_others(server):
    health, url = server
    health.health |= {"broken": lambda: str(1 / 0), "fine": lambda: None}

    status, text, _ = await ask(url + "/healthz")

    assert status == 503
    assert text.splitlines()[1] == "[+] fine: ok"
    assert "ZeroDivisionError" in text


async def test_metrics_have_controller_runtime_names(server):
    metrics.reconcile_total.labels("test-health", "success").inc()

    status, text, content_type = await ask(server[1] + "/metrics")

    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert 'controller_runtime_reconcile_total{controller="test-health",result="success"} 1.0' in text


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", id="idle after one request"),
        pytest.param(b"GET /", id="incomplete request"),
    ],
)
async def test_kubelet_gets_response_while_others_hold_all_connections(server, sent):
    _, url = server
    held = []
    for _ in range(150):
        held.append(await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2])))
        held[-1][1].write(sent)
        await held[-1][1].drain()
    try:
        for path in ("/healthz", "/readyz"):
            assert (await ask(url + path))[0] == 200
    finally:
        for _, writer in held:
            writer.transport.abort()


async def test_unknown_path_gives_404(server):
    assert (await ask(server[1] + "/secrets"))[0] == 404


async def test_server_that_was_not_started_can_be_stopped():
    await HealthServer("127.0.0.1", 0, SystemClock()).stop()
