"""A browser without a screen for `quintet dashboard`: pages and server-sent events over HTTP."""

import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from kit.eventually import eventually
from quintet.clock import SystemClock
from quintet.dashboard.server import Dashboard
from quintet.inspect.session import Target, connect


class Browser:
    """A browser that has opened the URL of a dashboard."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.origin = f"http://{urlsplit(url).netloc}"

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page."""
        async with self.session.get(self.origin + path) as response:
            return response.status, await response.text()

    async def sees(self, text: str, path: str = "/", within: float = 60.0) -> str:
        """Wait until a page contains a text, and return the page."""

        async def there() -> str:
            status, page = await self.get(path)
            assert status == 200, page
            assert text in page, f"no {text!r} in\n{page}"
            return page

        return await eventually(there, within=within)

    @contextlib.asynccontextmanager
    async def follows(self, path: str = "/") -> AsyncIterator["Views"]:
        """Follow the changes of a page."""
        url = URL(f"{self.origin}/live").with_query(of=path)
        async with self.session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as response:
            assert response.status == 200, await response.text()
            yield Views(response)


class Views:
    """The changes of a page."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, str]:
        """Wait for the next event, and return its name and data."""
        name, data = "", []
        while line := (await self._response.content.readline()).decode().removesuffix("\n"):
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            else:
                data.append(value)
        return name, "\n".join(data)

    async def shows(self, text: str) -> str:
        """Wait for a change after which the page contains a text."""
        while True:
            name, page = await self.next()
            assert name == "view", f"the stream ended without {text!r}: {name} {page}"
            if text in page:
                return page


@contextlib.asynccontextmanager
async def dashboard(target: Target) -> AsyncIterator[Browser]:
    """Run a dashboard in this process, and open its URL."""
    async with connect(target) as session:
        page = Dashboard(session, SystemClock(), one_namespace=bool(target.namespace))
        async with page.serve(0) as url, open_browser(url) as browser:
            yield browser


@contextlib.asynccontextmanager
async def open_browser(url: str) -> AsyncIterator[Browser]:
    """Open the URL that `quintet dashboard` prints."""
    jar = aiohttp.CookieJar(unsafe=True)  # also for hosts that are addresses
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(url) as response:
            assert response.status == 200, await response.text()
            assert 'content="0;url=/"' in await response.text()
        yield Browser(session, url)
