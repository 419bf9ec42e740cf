"""The server of the dashboard: pages, their changes as server-sent events, and static files."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlencode

from quintet.apis.meta import JsonObject
from quintet.dashboard.access import HEADERS, Access
from quintet.dashboard.layout import render_entry, render_page
from quintet.dashboard.object_page import render_gone, render_logs, render_object, render_problem
from quintet.dashboard.overview_page import render_overview
from quintet.dashboard.query import Query, parse_query
from quintet.dashboard.statuses import Statuses
from quintet.inspect import kinds
from quintet.inspect.error_messages import describe_error
from quintet.inspect.explanation_reader import read_details
from quintet.inspect.logs import LogPrinter
from quintet.inspect.relations.follow_tree import follow_details
from quintet.inspect.status import read_status
from quintet.kube.errors import Forbidden, KubeError, NotFound
from quintet.local.errors import LocalError
from quintet.web.server import Request, Response, Server, ServerLimits, StreamedResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from quintet.clock import Clock
    from quintet.dashboard.markup import Html
    from quintet.inspect.kinds import ObjectName
    from quintet.inspect.session import Session

HTML = "text/html; charset=utf-8"
PAUSE = 0.2
"""Seconds in which changes of the overview are collected."""
REFRESH = 30.0
"""Seconds after which a page is rendered again, because ages grow."""
_LIMITS = ServerLimits(body_bytes=0, connections=50)
_STATIC = {
    "dashboard.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_LOG_LINES = 200
_GRACE_SECONDS = 1.0


class UnknownPage(Exception):
    """The dashboard has no page at this path."""


class Dashboard:
    """Serves the dashboard on 127.0.0.1 with the permissions of a session."""

    def __init__(self, session: Session, clock: Clock, *, one_namespace: bool) -> None:
        self._session = session
        self._clock = clock
        self._statuses = Statuses(session, kinds.all_kinds(), clock, one_namespace=one_namespace)
        self._context = f"namespace {session.namespace}" if one_namespace else "all namespaces"
        self._server = Server(self._handle, _LIMITS, clock)
        self._access = Access(0)

    @contextlib.asynccontextmanager
    async def serve(self, port: int) -> AsyncGenerator[str, None]:
        """Serve until the context ends; its value is the URL with the token."""
        self._access = Access(await self._server.start("127.0.0.1", port))
        watches = asyncio.create_task(self._statuses.run())
        try:
            yield self._access.url
        finally:
            watches.cancel()
            await asyncio.gather(watches, return_exceptions=True)
            await self._server.stop(_GRACE_SECONDS)

    def _handle(self, request: Request) -> Response | StreamedResponse | asyncio.Task[Response]:
        if (refused := self._access.refuse(request)) is not None:
            return _secure(refused)
        if (cookie := self._access.set_cookie(request)) is not None:
            entry = Response(200, render_entry(), HTML, {"Set-Cookie": cookie})
            return _secure(entry)
        if request.path == "/live":
            of = parse_qs(request.query).get("of", ["/"])[-1]
            return StreamedResponse(self._stream(of), "text/event-stream", HEADERS)
        return asyncio.create_task(self._respond(request))

    async def _respond(self, request: Request) -> Response:
        folder, _, name = request.path.removeprefix("/").rpartition("/")
        if folder == "static" and name in _STATIC:
            content = files("quintet.dashboard").joinpath("static", name).read_bytes()
            return _secure(Response(200, content, _STATIC[name]))
        target = request.path + (f"?{request.query}" if request.query else "")
        live, status, title = f"/live?{urlencode({'of': target})}", 200, "Overview"
        try:
            if request.path == "/":
                main = self._render_overview(parse_query(request.query))
            elif (path := request.path.removesuffix("/logs")) != request.path:
                title, live, main = "Logs", "", await self._render_logs(*self._parse(path))
            else:
                session, named = self._parse(request.path)
                title = f"{named.kind.resource.kind} {named.name}"
                main = render_object(await read_details(session, named), self._clock.now())
        except (UnknownPage, KubeError, LocalError) as error:
            status, live, title = _status_of(error), "", "Problem"
            main = render_problem("This page cannot be shown", *_describe(error))
        return _secure(Response(status, render_page(title, main, context=self._context, live=live), HTML))

    def _parse(self, path: str) -> tuple[Session, ObjectName]:
        """Return the object at a path, and a session in its namespace."""
        match path.split("/"):
            case ["", "objects", kind, namespace, name] if namespace and name:
                with contextlib.suppress(kinds.UnknownKind):
                    found = kinds.find_kind(kind)
                    session = replace(self._session, namespace="" if namespace == "-" else namespace)
                    return session, kinds.ObjectName(found, name)
        raise UnknownPage

    def _render_overview(self, query: Query) -> Html:
        found = self._statuses
        now = self._clock.now()
        return render_overview(
            found.statuses(), found.kinds(), found.remarks(), query, now, loading=found.loading
        )

    async def _render_logs(self, session: Session, named: ObjectName) -> Html:
        key = session.key(named.kind.resource, named.name)
        body = await session.client.get(named.kind.resource, key, JsonObject)
        lines: list[str] = []
        remarks: list[str] = []
        try:
            await LogPrinter(session.client, lines.append, remarks.append, _LOG_LINES).print_object(
                named, key, previous=False
            )
        except LocalError as error:
            remarks.append(f"{error.message}; next: {error.next_step}")
        return render_logs(read_status(named.kind, body), lines, remarks)

    async def _stream(self, of: str) -> AsyncGenerator[bytes, None]:
        path, _, query = of.partition("?")
        try:
            if path == "/":
                views = self._follow_overview(parse_query(query))
            else:
                views = self._follow_object(*self._parse(unquote(path)))
            async with contextlib.aclosing(views):
                async for view in views:
                    yield encode_event("view", view)
            yield encode_event("end", "deleted")
        except (UnknownPage, KubeError) as error:
            yield encode_event("end", f"not live: {_describe(error)[0]}")

    async def _follow_overview(self, query: Query) -> AsyncGenerator[str, None]:
        shown = ""
        while True:
            version = self._statuses.version
            if (view := self._render_overview(query)) != shown:
                shown = view
                yield view
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._statuses.wait_for_change(version), REFRESH)
            await self._clock.sleep(PAUSE)

    async def _follow_object(self, session: Session, named: ObjectName) -> AsyncGenerator[str, None]:
        async for found in follow_details(session, named, lambda problem: None):
            yield render_object(found, self._clock.now())
        namespace = session.key(named.kind.resource, named.name).namespace
        yield render_gone(named.kind.resource.kind, namespace, named.name)


def encode_event(name: str, data: str) -> bytes:
    """Return a server-sent event."""
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "".join([f"event: {name}\n", *(f"data: {line}\n" for line in lines), "\n"]).encode()


def _secure(response: Response) -> Response:
    return replace(response, headers={**HEADERS, **response.headers})


def _status_of(error: Exception) -> int:
    match error:
        case Forbidden():
            return 403
        case UnknownPage() | NotFound():
            return 404
    return 502


def _describe(error: Exception) -> tuple[str, str]:
    match error:
        case KubeError():
            return describe_error(error)
        case LocalError():
            return error.message, error.next_step
    return "there is no such page", "go back to the overview"
