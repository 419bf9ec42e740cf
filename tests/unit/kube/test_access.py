"""Who may read the metrics: results of reviews, how long they are used, and what floods of tokens cost."""

import asyncio
from typing import Any

import msgspec
import pytest

from kit.background import run_in_background
from kit.clock import VirtualClock, settle
from quintet.apis.meta import JsonObject, Resource
from quintet.kube.access import MOST_UNKNOWN, AccessReviewer
from quintet.kube.errors import Unreachable

PATH = "/metrics"
READER = {"username": "reader", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}}


class Reviews:
    """The review APIs: `users` by token, the names of those who `may` read; `down` and `slow` at will."""

    def __init__(self) -> None:
        self.users: dict[str, JsonObject] = {"good": READER, "weak": {"username": "weak"}}
        self.may = {"reader"}
        self.asked: list[str] = []
        self.subjects: list[JsonObject] = []
        self.down = False
        self.slow = asyncio.Event()
        self.slow.set()

    async def create(self, resource: Resource, body: JsonObject, kind: type[Any]) -> Any:
        await self.slow.wait()
        if self.down:
            raise Unreachable("no route to host")
        spec = body["spec"]
        if resource.kind == "TokenReview":
            self.asked.append(spec["token"])
            user = self.users.get(spec["token"])
            found: JsonObject = {"authenticated": True, "user": user} if user else {"error": "unknown"}
        else:
            self.subjects.append(spec)
            found = {"allowed": spec["user"] in self.may}
        return msgspec.convert({"status": found}, kind)


class Bench:
    def __init__(self) -> None:
        self.reviews, self.clock = Reviews(), VirtualClock()
        client: Any = self.reviews
        self.reviewer = AccessReviewer(client, self.clock)

    async def status(self, token: str) -> int:
        denial = await self.reviewer.review(token, PATH, "get")
        return denial.status if denial else 200


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_user_with_permission_may_read(bench: Bench):
    assert await bench.status("good") == 200
    (subject,) = bench.reviews.subjects
    assert subject == {
        "user": "reader", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": PATH, "verb": "get"},
    }  # fmt: skip


async def test_user_without_permission_is_named_in_the_denial(bench: Bench):
    denial = await bench.reviewer.review("weak", PATH, "get")
    assert denial
    assert (denial.status, denial.problem.partition(":")[0]) == (403, "weak may not get /metrics")


async def test_unknown_token_is_not_authenticated(bench: Bench):
    assert await bench.status("bad") == 401
    assert not bench.reviews.subjects


@pytest.mark.parametrize(("token", "status"), [("good", 200), ("weak", 403), ("bad", 401)])
async def test_result_is_used_for_a_minute(bench: Bench, token, status):
    for _ in range(3):
        assert await bench.status(token) == status
        await bench.clock.advance(19.0)
    assert bench.reviews.asked == [token]
    await bench.clock.advance(4.0)
    assert await bench.status(token) == status
    assert bench.reviews.asked == [token, token]


async def test_revoked_permission_ends_access_within_a_minute(bench: Bench):
    assert await bench.status("good") == 200
    bench.reviews.may.clear()
    await bench.clock.advance(61.0)
    assert await bench.status("good") == 403


async def test_accepted_token_stays_accepted_for_ten_minutes_without_api_server(bench: Bench):
    assert await bench.status("good") == 200
    assert await bench.status("weak") == 403
    bench.reviews.down = True
    await bench.clock.advance(599.0)
    assert await bench.status("good") == 200
    assert await bench.status("weak") == 503, "nothing is allowed that was not allowed before"
    assert await bench.status("new") == 503
    await bench.clock.advance(2.0)
    assert await bench.status("good") == 503
    bench.reviews.down = False
    assert await bench.status("good") == 200


async def test_flood_of_unknown_tokens_causes_few_reviews_and_does_not_delay_accepted_token(bench: Bench):
    assert await bench.status("good") == 200
    await bench.clock.advance(61.0)
    bench.reviews.slow.clear()
    flood = [bench.status(f"token-{number}") for number in range(1000)]
    async with run_in_background(bench.status("good"), *flood[:MOST_UNKNOWN]):
        await settle()
        assert {await each for each in flood[MOST_UNKNOWN:]} == {503}
        bench.reviews.slow.set()
        await settle()
    assert bench.reviews.asked.count("good") == 2
    assert len(bench.reviews.asked) == 2 + MOST_UNKNOWN


async def test_invented_tokens_do_not_displace_an_accepted_one(bench: Bench):
    assert await bench.status("good") == 200
    for number in range(1000):
        assert await bench.status(f"token-{number}") == 401
    assert await bench.status("good") == 200
    assert bench.reviews.asked.count("good") == 1
    assert len(bench.reviewer._results) <= 256
