"""The OAuth2 client credentials grant: one request to the token endpoint of an EventMesh.

Errors contain neither the request nor the response.
"""

import base64
from typing import Final
from urllib.parse import quote

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.eventing.decide.eventmesh import GRANT_TYPE, EventMesh
from quintet.eventing.tokens import Token, TokenError
from quintet.web.http_client import HttpClient, HttpError

_MIN_SECONDS: Final = 1.0
_DEFAULT_SECONDS: Final = 300.0
"""The validity of a token without `expires_in`."""


class _TokenResponse(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


_decoder = msgspec.json.Decoder(_TokenResponse, strict=False)


async def fetch_token(mesh: EventMesh, client: HttpClient) -> Token:
    """Return a new token; raises `TokenError`. The client must be for `mesh.token_url`."""
    pair = f"{quote(mesh.client_id, safe='')}:{quote(mesh.client_secret, safe='')}"
    headers = {
        "authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
        "content-type": "application/x-www-form-urlencoded",
        "accept": "application/json",
    }
    try:
        response = await client.post(headers, f"grant_type={GRANT_TYPE}&response_type=token".encode())
    except HttpError as error:
        raise TokenError(f"no token: {error}") from error
    if response.status in (400, 401, 403):
        raise TokenError(f"no token: {client.host} rejected the credentials (status {response.status})")
    if response.status != 200:
        raise TokenError(f"no token: {client.host} responded with {response.status}")
    try:
        token = _decoder.decode(response.body)
    except DECODE_ERRORS:
        raise TokenError(f"no token: the response of {client.host} does not contain one") from None
    if not token.access_token.isascii() or not token.access_token.isprintable():
        raise TokenError(f"no token: the one of {client.host} is not valid in a header")
    seconds = _DEFAULT_SECONDS if token.expires_in is None else token.expires_in
    return Token(token.access_token, max(_MIN_SECONDS, seconds))
