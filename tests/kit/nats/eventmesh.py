"""A fake SAP Event Mesh with its token endpoint and its event endpoint.

The real service cannot run here, so the tests show how the publisher behaves, not how the service does.
"""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote

from quintet.clock import SystemClock
from quintet.web.server import Request, Response, Server, ServerLimits

CLIENT, SECRET, NAMESPACE = "the-client", "hush:hush%", "default/shop/one"


class EventMeshDouble:
    """Issues tokens and stores events; tests can set every response status."""

    def __init__(self) -> None:
        self.port = 0
        self.tokens: list[str] = []
        self.good: set[str] = set()
        self.expires_in: object = 3600
        self.token_status = 200
        self.status = 204
        self.words = b""
        self.events: list[Request] = []
        self.refused = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def secret(self, folder: Path, client_secret: str = SECRET) -> Path:
        """Write the files of its Secret."""
        login = {
            "clientid": CLIENT,
            "clientsecret": client_secret,
            "tokenendpoint": f"{self.url}/oauth/token",
            "granttype": "client_credentials",
        }
        entry = {"broker": {"type": "saprestmgw"}, "oa2": login, "uri": self.url}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "messaging").write_text(json.dumps([entry]))
        (folder / "namespace").write_text(NAMESPACE)
        return folder

    def forget_tokens(self) -> None:
        """Revoke all issued tokens."""
        self.good.clear()

    def handle(self, request: Request) -> Response:
        match request.path:
            case "/oauth/token":
                return self._token(request)
            case "/sap/ems/v1/events":
                return self._event(request)
        return Response(404)

    def _token(self, request: Request) -> Response:
        kind, _, pair = request.headers.get("authorization", "").partition(" ")
        name, _, secret = base64.b64decode(pair).decode().partition(":")
        asked = parse_qs(request.body.decode())
        if kind != "Basic" or (unquote(name), unquote(secret)) != (CLIENT, SECRET):
            return Response(401, b'{"error":"invalid_client"}')
        if asked["grant_type"] != ["client_credentials"] or self.token_status != 200:
            return Response(self.token_status if self.token_status != 200 else 400)
        token = f"token-{len(self.tokens) + 1}"
        self.tokens.append(token)
        self.good.add(token)
        answer = {"access_token": token, "token_type": "bearer", "expires_in": self.expires_in}
        return Response(200, json.dumps(answer).encode(), "application/json")

    def _event(self, request: Request) -> Response:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.good:
            self.refused += 1
            return Response(401)
        if self.status != 204:
            return Response(self.status, self.words, headers={"Retry-After": "7"})
        self.events.append(request)
        return Response(204)


@asynccontextmanager
async def an_event_mesh() -> AsyncIterator[EventMeshDouble]:
    """Run the fake service while inside."""
    double = EventMeshDouble()
    server = Server(double.handle, ServerLimits(), SystemClock())
    double.port = await server.start("127.0.0.1", 0)
    try:
        yield double
    finally:
        await server.stop(0.1)
