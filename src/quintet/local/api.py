"""A small synchronous client for the API server of an embedded cluster, with the administrator's certificate.

The cluster's own start-up code uses it before anything else works; controllers use `quintet.kube`.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 5.0
MERGE_PATCH = "application/merge-patch+json"
ALREADY_EXISTS = 409


@dataclass(frozen=True)
class Api:
    """Client for the API server at a port of `host`; `directory` is the cluster's folder."""

    directory: Path
    port: int
    host: str = "127.0.0.1"

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        pki = self.directory / "pki"
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        # Ignore the user's HTTP proxy: the API server is on this machine.
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; return the decoded JSON, or the text of a response that is not JSON.

        PATCH sends a merge patch. Raise OSError if the request fails.
        """
        request = urllib.request.Request(
            f"https://{self.host}:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": MERGE_PATCH if method == "PATCH" else "application/json"},
        )
        try:
            with self._opener.open(request, timeout=SECONDS) as response:
                content = response.read()
        except http.client.HTTPException as error:
            # A truncated response, for example, is not an OSError; callers handle only OSError.
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        try:
            return json.loads(content)
        except ValueError:
            return content.decode(errors="replace")

    def get(self, path: str) -> Any | None:
        """GET a path; return None if the request fails."""
        try:
            return self.request("GET", path)
        except OSError:
            return None

    def create(self, path: str, body: Any) -> None:
        """POST an object; do nothing if it already exists."""
        try:
            self.request("POST", path, body)
        except urllib.error.HTTPError as error:
            with error:
                if error.code != ALREADY_EXISTS:
                    raise
