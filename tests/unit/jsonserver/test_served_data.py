"""What a pod serves is read back within bounds, and every failure has a short name."""

import asyncio

import pytest

from kit.http.raw import a_server
from quintet.controllers.jsonserver.served_data import read_over_http
from quintet.web.server import Response


async def test_served_data_is_returned():
    seen = []

    def handler(request):
        seen.append((request.method, request.path, request.headers["host"]))
        return Response(200, b'{"books": []}', "application/json")

    async with a_server(handler) as place:
        url = f"http://127.0.0.1:{place.port}/db"
        assert await read_over_http(url) == (b'{"books": []}', "")
        assert seen == [("GET", "/db", f"127.0.0.1:{place.port}")]


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(Response(404), "HTTP 404", id="a pod that does not have it"),
        pytest.param(Response(302, headers={"Location": "http://elsewhere/"}), "HTTP 302", id="a pod that sends us elsewhere"),
        pytest.param(Response(200, b"x" * (5 << 20)), "the response is larger than the data", id="a pod without measure"),
    ],
)  # fmt: skip
async def test_other_status_codes_are_reported(answer, want):
    async with a_server(lambda request: answer) as place:
        assert await read_over_http(f"http://127.0.0.1:{place.port}/db") == (None, want)


async def test_pod_that_never_responds_times_out():
    never = asyncio.get_running_loop().create_future()
    async with a_server(lambda request: never) as place:
        assert await read_over_http(f"http://127.0.0.1:{place.port}/db", 0.2) == (
            None,
            "no response in 0.2 s",
        )


async def test_unreachable_service_is_reported():
    async with a_server(lambda request: Response()) as place:
        url = f"http://127.0.0.1:{place.port}/db"
    assert await read_over_http(url) == (None, "ConnectionRefusedError")
    assert await read_over_http("http://nowhere.invalid/db") == (None, "gaierror")


async def test_response_that_is_not_http_is_reported():
    async def speak(reader, writer):
        writer.write(b"SSH-2.0-OpenSSH\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await read_over_http(f"http://127.0.0.1:{port}/db") == (None, "ConnectionError")
