"""Whether the bearer of a token may read a path of this process, as the API server decides.

A TokenReview tells whose token it is, a SubjectAccessReview whether RBAC allows this user the path. Anybody
in the cluster may send tokens, so the reviews are few at a time and their results are kept for a while.
"""

import hashlib
import math
from collections import OrderedDict
from typing import NamedTuple

from quintet.apis.meta import JsonObject, Resource, Struct
from quintet.clock import Clock
from quintet.kube.client import Client
from quintet.kube.errors import KubeError
from quintet.observe.metrics_server import Denial

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
FRESH_SECONDS = 60.0
"""How long a result is used without another review."""
OUTAGE_SECONDS = 600.0
"""How long an accepted token stays accepted if the API server does not respond to a review."""
MOST_UNKNOWN = 4
"""Reviews at once of tokens that were not accepted before; the others do not wait behind them."""
_MOST_RESULTS = 256


class _User(Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class _Result(NamedTuple):
    denial: Denial | None
    decided_at: float


_UNAUTHENTICATED = Denial(401, "the API server does not accept this token")
_BUSY = Denial(503, "too many unknown tokens are being reviewed: try again")


class AccessReviewer:
    """Asks the API server, and keeps its answers for a while."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._results: OrderedDict[bytes, _Result] = OrderedDict()
        self._unknown = 0

    async def review(self, token: str, path: str, verb: str) -> Denial | None:
        """Return why the bearer of the token may not use the verb on the path; None if it may."""
        key = hashlib.sha256(f"{verb} {path} {token}".encode()).digest()
        last = self._results.get(key)
        age = self._clock.monotonic() - last.decided_at if last is not None else math.inf
        if last is not None and age < FRESH_SECONDS:
            return last.denial
        was_accepted = last is not None and last.denial is None
        if not was_accepted and self._unknown >= MOST_UNKNOWN:
            return _BUSY
        self._unknown += not was_accepted
        try:
            denial = await self._ask(token, path, verb)
        except KubeError as error:
            if was_accepted and age < OUTAGE_SECONDS:
                return None
            return Denial(503, f"the API server could not review the token: {error}")
        finally:
            self._unknown -= not was_accepted
        self._remember(key, denial)
        return denial

    def _remember(self, key: bytes, denial: Denial | None) -> None:
        self._results.pop(key, None)
        if len(self._results) >= _MOST_RESULTS:
            # Tokens that anybody can invent must not displace accepted ones.
            refused = (each for each, result in self._results.items() if result.denial is not None)
            del self._results[next(refused, next(iter(self._results)))]
        self._results[key] = _Result(denial, self._clock.monotonic())

    async def _ask(self, token: str, path: str, verb: str) -> Denial | None:
        body: JsonObject = {**_head(TOKEN_REVIEWS), "spec": {"token": token}}
        found = (await self._client.create(TOKEN_REVIEWS, body, _TokenReview)).status
        user = found.user
        if not found.authenticated:
            return _UNAUTHENTICATED
        spec: JsonObject = {"user": user.username, "uid": user.uid, "groups": list(user.groups or ())}
        spec["extra"] = {name: list(values) for name, values in (user.extra or {}).items()}
        spec["nonResourceAttributes"] = {"path": path, "verb": verb}
        body = {**_head(ACCESS_REVIEWS), "spec": spec}
        if (await self._client.create(ACCESS_REVIEWS, body, _AccessReview)).status.allowed:
            return None
        return Denial(403, f"{user.username} may not {verb} {path}: bind a ClusterRole that allows it")


def _head(resource: Resource) -> JsonObject:
    return {"apiVersion": resource.api_version, "kind": resource.kind}
