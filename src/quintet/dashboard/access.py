"""Who may use the dashboard: browsers that were opened with its URL, under the address that it has."""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from quintet.web.server import Response

if TYPE_CHECKING:
    from quintet.web.server import Request

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every response: nothing is loaded from elsewhere, stored, or shown in a frame."""


class Access:
    """Checks each request: its Host, and the token that the URL sets as a cookie.

    A page of another site can send requests to 127.0.0.1. It knows no token, the browser sends it no cookie,
    and if its name resolves to 127.0.0.1, the Host is that name.
    """

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        # Cookies do not depend on the port: each dashboard has its own.
        self._cookie = f"quintet-dashboard-{port}"
        self.url = f"http://{self._hosts[0]}/?token={self.token}"

    def set_cookie(self, request: Request) -> str | None:
        """Return the cookie to set if the URL has the right token."""
        given = parse_qs(request.query).get("token", [""])[-1]
        if request.path != "/" or not self._is_token(given):
            return None
        return f"{self._cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"

    def refuse(self, request: Request) -> Response | None:
        """Return why a request is refused; None if it is permitted."""
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"only GET is allowed\n", headers={"Allow": "GET, HEAD"})
        if request.headers.get("host") not in self._hosts:
            return Response(421, f"open the dashboard as http://{self._hosts[0]}\n".encode())
        if self.set_cookie(request) is None and not self._is_token(self._read_cookie(request)):
            return Response(403, b"open the dashboard with the URL that `quintet dashboard` prints\n")
        return None

    def _read_cookie(self, request: Request) -> str:
        try:
            cookies = SimpleCookie(request.headers.get("cookie", ""))
        except CookieError:
            return ""
        return cookies[self._cookie].value if self._cookie in cookies else ""

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())
