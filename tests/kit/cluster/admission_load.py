"""Sends objects to the API server continuously, to detect moments without admission.

Every round sends a valid and an invalid JsonServer as dry runs. The first must be accepted, the second rejected with
our message. Any other result is counted by its text.
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
    """The results of all objects sent so far."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.right: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self._path = f"/apis/example.com/v1/namespaces/{namespace}/jsonservers"
        self._enough = Event()
        # A thread, because a test that waits for another process blocks its event loop.
        self._thread = Thread(target=lambda: asyncio.run(self._ask(kubeconfig)), daemon=True)
        self._thread.start()

    async def once(self, api: Api) -> tuple[str, str]:
        """Send one valid and one invalid object."""
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
        """Stop sending and wait for the thread."""
        self._enough.set()
        self._thread.join()


@contextmanager
def send_reviews(kubeconfig: Path, namespace: str) -> Iterator[Reviews]:
    """Send objects to this namespace while inside."""
    reviews = Reviews(kubeconfig, namespace)
    try:
        yield reviews
    finally:
        reviews.stop()
