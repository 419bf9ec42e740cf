"""Discovery over HTTP: what is published, and what one client may cost."""

import asyncio
import json

import aiohttp
import pytest

from kit.clock import VirtualClock
from quintet.apis.eventingbackend import CATALOG
from quintet.apis.eventingbackend.discovery import MAX_BODY_BYTES
from quintet.clock import SystemClock
from quintet.eventing.discovery import Bucket, Discovery, Rate, serving
from quintet.web.messages import Request


@pytest.fixture
async def ask():
    async with serving("127.0.0.1", 0, SystemClock()) as port, aiohttp.ClientSession() as session:

        async def asked(method, path, **options):
            async with session.request(method, f"http://127.0.0.1:{port}{path}", **options) as answer:
                return answer.status, answer.headers, await answer.read()

        asked.port = port
        yield asked


async def test_the_types_are_answered_as_published(ask):
    status, headers, body = await ask("GET", "/backend")
    assert (status, body) == (200, b'["nats","beb"]')
    assert headers.getall("Content-Type") == ["application/json"]
    assert headers.getall("Content-Length") == ["14"]


@pytest.mark.parametrize("name", CATALOG)
async def test_a_type_is_answered_in_the_published_shape(ask, name):
    status, headers, body = await ask("GET", f"/backend/{name}")
    found = json.loads(body)
    assert (status, headers["Content-Type"], found["type"]) == (200, "application/json", name)
    for entry in found["config"]:
        assert {"name", "description", "dataType", "defaultValue", "required"} <= entry.keys()


async def test_a_query_does_not_matter(ask):
    assert (await ask("GET", "/backend?x=y"))[0] == 200


async def test_a_document_that_did_not_change_is_not_sent_again(ask):
    _, headers, _ = await ask("GET", "/backend/nats")
    status, again, body = await ask("GET", "/backend/nats", headers={"If-None-Match": headers["ETag"]})
    assert (status, body, again["ETag"]) == (304, b"", headers["ETag"])
    assert "Content-Type" not in again


@pytest.mark.parametrize("path", ["/backend", "/backend/nats", "/backend/kafka", "/backend/nats/validate"])
async def test_head_has_the_headers_of_get_and_no_body(ask, path):
    status, headers, body = await ask("HEAD", path)
    want_status, want_headers, want_body = await ask("GET", path)
    assert (status, dict(headers), body) == (want_status, dict(want_headers), b"")
    assert want_headers["Content-Length"] == str(len(want_body))


async def test_an_unknown_type_and_another_method_are_answered_with_what_there_is(ask):
    status, headers, body = await ask("GET", "/backend/kafka")
    assert (status, headers["Content-Type"]) == (404, "application/json")
    assert json.loads(body) == {"error": "backend type 'kafka' does not exist: there are nats, beb"}
    status, headers, _ = await ask("DELETE", "/backend/nats")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert (await ask("GET", "/"))[0] == 404


async def test_what_if_and_the_schema_are_served(ask):
    status, headers, body = await ask("POST", "/backend/nats/validate", data=b'[{"streamReplicas":9}]')
    assert (status, headers["Cache-Control"], json.loads(body)["valid"]) == (200, "no-store", False)
    status, headers, _ = await ask("GET", "/backend/beb/schema")
    assert (status, headers["Content-Type"]) == (200, "application/schema+json")


async def test_a_large_body_is_refused(ask):
    status, _, _ = await ask("POST", "/backend/nats/validate", data=b" " * (MAX_BODY_BYTES + 1))
    assert status == 413


async def test_nonsense_is_refused_and_the_next_client_is_served(ask):
    reader, writer = await asyncio.open_connection("127.0.0.1", ask.port)
    writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    assert (await ask("GET", "/backend"))[0] == 200


def test_a_bucket_lets_through_what_it_holds_and_then_what_drips_in():
    clock = VirtualClock()
    bucket = Bucket(Rate(per_second=10, at_once=3), clock)
    assert [bucket.wait() for _ in range(3)] == [0, 0, 0]
    assert bucket.wait() == pytest.approx(0.1)
    clock.elapsed += 0.25
    assert [bucket.wait() for _ in range(2)] == [0, 0]
    assert bucket.wait() == pytest.approx(0.05)
    clock.elapsed += 3600
    assert [bucket.wait() == 0 for _ in range(4)] == [True, True, True, False], "it never holds more"


def test_too_many_requests_are_told_when_to_come_back_and_reading_and_asking_do_not_share():
    clock = VirtualClock()
    discovery = Discovery(clock, reading=Rate(1, 1), asking=Rate(0.25, 1))
    read = Request("GET", "/backend", "", {})
    ask = Request("POST", "/backend/nats/validate", "", {}, b"[]")
    assert [discovery.handle(each).status for each in (read, read, ask, ask)] == [200, 429, 200, 429]
    refused = discovery.handle(ask)
    assert refused.headers == {"Retry-After": "4"}
    assert json.loads(refused.body) == {"error": "too many requests: try again later"}
    clock.elapsed += 1
    assert discovery.handle(read).status == 200
