"""Tokens by client credentials (OAuth2): one request to the token endpoint of an EventMesh.

Used by the publisher proxy, through `tokens`, and by the controller to probe a login. No error
holds what was sent or what came back.
"""

import base64
from typing import Final
from urllib.parse import quote

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.eventing.decide.eventmesh import GRANT_TYPE, EventMesh
from quintet.eventing.tokens import Token, TokenError
from quintet.web.http_client import HttpClient, HttpError

_SHORTEST: Final = 1.0
_DEFAULT_SECONDS: Final = 300.0
"""For how long a token is taken as good whose endpoint does not say."""


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


_answer = msgspec.json.Decoder(_Answer, strict=False)


async def fetch(mesh: EventMesh, caller: HttpClient) -> Token:
    """Log in and get a token; raises `TokenError`. The caller is one for `mesh.token_url`."""
    pair = f"{quote(mesh.client_id, safe='')}:{quote(mesh.client_secret, safe='')}"
    headers = {
        "authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
        "content-type": "application/x-www-form-urlencoded",
        "accept": "application/json",
    }
    try:
        called = await caller.post(headers, f"grant_type={GRANT_TYPE}&response_type=token".encode())
    except HttpError as error:
        raise TokenError(f"no token: {error}") from error
    if called.status in (400, 401, 403):
        raise TokenError(f"no token: {caller.host} refused the login (answer {called.status})")
    if called.status != 200:
        raise TokenError(f"no token: {caller.host} answered {called.status}")
    try:
        answer = _answer.decode(called.body)
    except DECODE_ERRORS:
        raise TokenError(f"no token: the answer of {caller.host} holds none") from None
    if not answer.access_token.isascii() or not answer.access_token.isprintable():
        raise TokenError(f"no token: that of {caller.host} cannot be sent as a header")
    seconds = _DEFAULT_SECONDS if answer.expires_in is None else answer.expires_in
    return Token(answer.access_token, max(_SHORTEST, seconds))
