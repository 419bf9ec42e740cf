"""The few requests the cluster's own parts make to its API server, as its administrator.

Called by `controlplane`, `node` and `storage`. Operators use `quintet.kube`; this stays
synchronous and small because it also runs before anything else works.
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
ALREADY_EXISTS = 409


@dataclass(frozen=True)
class Api:
    """The API server of the cluster in `directory`, which answers on a port of loopback."""

    directory: Path
    port: int

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        pki = self.directory / "pki"
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        # A proxy of the user's has no business between us and loopback.
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; return decoded JSON, or text where the answer is none; a failure is an OSError."""
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=SECONDS) as response:
                answer = response.read()
        except http.client.HTTPException as error:
            # Cut short, for example; no OSError by itself, though callers have to treat it as one.
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        try:
            return json.loads(answer)
        except ValueError:
            return answer.decode(errors="replace")

    def get(self, path: str) -> Any | None:
        """GET a path; None when there is no good answer."""
        try:
            return self.request("GET", path)
        except OSError:
            return None

    def create(self, path: str, body: Any) -> None:
        """POST an object; one that is already there is left as it is."""
        try:
            self.request("POST", path, body)
        except urllib.error.HTTPError as error:
            with error:
                if error.code != ALREADY_EXISTS:
                    raise
