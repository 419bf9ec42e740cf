"""The discovery API over HTTP: documents and limits."""

import asyncio
import json

import aiohttp
import pytest

from kit.clock import VirtualClock
from quintet.apis.eventingbackend import CATALOG
from quintet.apis.eventingbackend.discovery import MAX_BODY_BYTES
from quintet.clock import SystemClock
from quintet.eventing.discovery import DiscoveryHandler, Rate, TokenBucket, serve
from quintet.web.messages import Request


@pytest.fixture
async def ask():
    async with serve("127.0.0.1", 0, SystemClock()) as port, aiohttp.ClientSession() as session:

        async def asked(method, path, **options):
            async with session.request(method, f"http://127.0.0.1:{port}{path}", **options) as answer:
                return answer.status, answer.headers, await answer.read()

        asked.port = port
        yield asked


async def test_backend_types_are_listed(ask):
    status, headers, body = await ask("GET", "/backend")
    assert (status, body) == (200, b'["nats","beb"]')
    assert headers.getall("Content-Type") == ["application/json"]
    assert headers.getall("Content-Length") == ["14"]


@pytest.mark.parametrize("name", CATALOG)
async def test_backend_type_has_the_documented_shape(ask, name):
    status, headers, body = await ask("GET", f"/backend/{name}")
    found = json.loads(body)
    assert (status, headers["Content-Type"], found["type"]) == (200, "application/json", name)
    for entry in found["config"]:
        assert {"name", "description", "dataType", "defaultValue", "required"} <= entry.keys()


async def test_query_string_is_ignored(ask):
    assert (await ask("GET", "/backend?x=y"))[0] == 200


async def test_unchanged_document_gives_304(ask):
    _, headers, _ = await ask("GET", "/backend/nats")
    status, again, body = await ask("GET", "/backend/nats", headers={"If-None-Match": headers["ETag"]})
    assert (status, body, again["ETag"]) == (304, b"", headers["ETag"])
    assert "Content-Type" not in again


@pytest.mark.parametrize("path", ["/backend", "/backend/nats", "/backend/kafka", "/backend/nats/validate"])
async def test_head_has_headers_of_get_without_body(ask, path):
    status, headers, body = await ask("HEAD", path)
    want_status, want_headers, want_body = await ask("GET", path)
    assert (status, dict(headers), body) == (want_status, dict(want_headers), b"")
    assert want_headers["Content-Length"] == str(len(want_body))


async def test_unknown_type_and_method_list_what_exists(ask):
    status, headers, body = await ask("GET", "/backend/kafka")
    assert (status, headers["Content-Type"]) == (404, "application/json")
    assert json.loads(body) == {"error": "backend type 'kafka' does not exist: there are nats, beb"}
    status, headers, _ = await ask("DELETE", "/backend/nats")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert (await ask("GET", "/"))[0] == 404


async def test_what_if_and_schema_are_served(ask):
    status, headers, body = await ask("POST", "/backend/nats/validate", data=b'[{"streamReplicas":9}]')
    assert (status, headers["Cache-Control"], json.loads(body)["valid"]) == (200, "no-store", False)
    status, headers, _ = await ask("GET", "/backend/beb/schema")
    assert (status, headers["Content-Type"]) == (200, "application/schema+json")


async def test_large_body_is_rejected(ask):
    status, _, _ = await ask("POST", "/backend/nats/validate", data=b" " * (MAX_BODY_BYTES + 1))
    assert status == 413


async def test_invalid_request_does_not_affect_the_next_client(ask):
    reader, writer = await asyncio.open_connection("127.0.0.1", ask.port)
    writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    assert (await ask("GET", "/backend"))[0] == 200


def test_token_bucket_allows_burst_then_rate():
    clock = VirtualClock()
    bucket = TokenBucket(Rate(per_second=10, burst=3), clock)
    assert [bucket.acquire() for _ in range(3)] == [0, 0, 0]
    assert bucket.acquire() == pytest.approx(0.1)
    clock.elapsed += 0.25
    assert [bucket.acquire() for _ in range(2)] == [0, 0]
    assert bucket.acquire() == pytest.approx(0.05)
    clock.elapsed += 3600
    assert [bucket.acquire() == 0 for _ in range(4)] == [True, True, True, False], "it never holds more"


def test_rate_limit_sends_retry_after_separately_for_get_and_what_if():
    clock = VirtualClock()
    discovery = DiscoveryHandler(clock, get_rate=Rate(1, 1), what_if_rate=Rate(0.25, 1))
    read = Request("GET", "/backend", "", {})
    ask = Request("POST", "/backend/nats/validate", "", {}, b"[]")
    assert [discovery.handle(each).status for each in (read, read, ask, ask)] == [200, 429, 200, 429]
    refused = discovery.handle(ask)
    assert refused.headers == {"Retry-After": "4"}
    assert json.loads(refused.body) == {"error": "too many requests: try again later"}
    clock.elapsed += 1
    assert discovery.handle(read).status == 200
