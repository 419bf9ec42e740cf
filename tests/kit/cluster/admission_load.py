"""Somebody who sends objects to the API server all the time, to see whether admission is ever away.

Every round is a right JsonServer and a wrong one, as dry runs: the first must be taken, the second refused in
our own words. Anything else is kept word for word.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from kit.cluster.api import Api, RefusedError
from kit.kinds.jsonservers import a_jsonserver

PAUSE = 0.1
TAKEN, REFUSED = "taken", "refused by us"
WORDS = "Invalid JSON configuration."


class Reviews:
    """What became of every object, over the whole time."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.right: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self._path = f"/apis/example.com/v1/namespaces/{namespace}/jsonservers"
        self._enough = Event()
        # A thread, because a test that waits in another program would hold up everything on its loop.
        self._thread = Thread(target=lambda: asyncio.run(self._ask(kubeconfig)), daemon=True)
        self._thread.start()

    async def once(self, api: Api) -> tuple[str, str]:
        """One round."""
        right = await self._send(api, a_jsonserver("app-right", "{}"))
        return right, await self._send(api, a_jsonserver("app-wrong", "no json"))

    async def _ask(self, kubeconfig: Path) -> None:
        async with Api.connect(kubeconfig) as api:
            while not self._enough.is_set():
                right, wrong = await self.once(api)
                self.right[right] += 1
                self.wrong[wrong] += 1
                await asyncio.sleep(PAUSE)

    async def _send(self, api: Api, body: dict[str, object]) -> str:
        try:
            await api.create(self._path, body, dryRun="All")
        except RefusedError as error:
            return REFUSED if WORDS in str(error) else str(error)
        return TAKEN

    def stop(self) -> None:
        """Ask no more."""
        self._enough.set()
        self._thread.join()


@contextmanager
def reviewing(kubeconfig: Path, namespace: str) -> Iterator[Reviews]:
    """Send objects of that namespace while inside."""
    reviews = Reviews(kubeconfig, namespace)
    try:
        yield reviews
    finally:
        reviews.stop()
