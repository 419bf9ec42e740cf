"""The API server's verbs as typed calls. Everything above speaks to the cluster through this.

Answers are decoded into the struct that the caller names, so that a caller pays only for
the fields that it reads. Watching as a lasting activity is `runtime.watch`; here is only
the single stream.
"""

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import msgspec

from quintet.apis.decoding import CUT, DECODE_ERRORS, cut_nesting
from quintet.apis.meta import JsonObject, ObjectKey, Resource, Struct
from quintet.kube.errors import BadRequest, Status, UnexpectedAnswer, error_for
from quintet.kube.transport import JSON as WHOLE
from quintet.kube.transport import Fence, Transport

T = TypeVar("T")

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
# Servers that cannot leave the rest out send everything.
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METADATA_LIST = _METADATA.replace("Metadata;", "MetadataList;")

EVICTION = Resource("policy", "v1", "Eviction", "evictions")
PODS = Resource("", "v1", "Pod", "pods")


class ListMeta(Struct, frozen=True):
    """Where a list stands: its version, and how to get the next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(Struct, frozen=True):
    """One page of a list; the items are still bytes."""

    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] = ()
    too_deep: tuple[msgspec.Raw, ...] = ()
    """The items that are nested too deeply, without what `cut_nesting` removes: only to identify them."""


class _Listed(Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    # An empty list of metadata comes as null.
    items: tuple[msgspec.Raw, ...] | None = None


class WatchEvent(Struct, frozen=True):
    """One line of a watch; the object is still bytes."""

    type: str
    object: msgspec.Raw


class Version(Struct, frozen=True):
    """What the server says of itself at `/version`."""

    git_version: str = ""
    major: str = ""
    minor: str = ""


# What would end a segment of a path, or be read as something else than it says.
_UNSAFE = frozenset("/%?#\\")
# What may stand in a header: nothing that could begin another one.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_encoder = msgspec.json.Encoder()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
decode_watch_event = msgspec.json.Decoder(WatchEvent).decode
_decode_list = msgspec.json.Decoder(_Listed).decode


class Client:
    """Typed requests to one API server as one field manager."""

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "quintet",
        fence: Fence | None = None,
        user: str = "",
    ) -> None:
        self._transport = transport
        self.field_manager = field_manager
        self._fence = fence
        self._user = user

    def with_manager(self, field_manager: str) -> "Client":
        """The same connections, writing under another name."""
        return Client(self._transport, field_manager=field_manager, fence=self._fence, user=self._user)

    def fenced(self, fence: Fence) -> "Client":
        """The same connections, writing only while `fence` says so."""
        return Client(self._transport, field_manager=self.field_manager, fence=fence, user=self._user)

    def acting_as(self, account: ObjectKey) -> "Client":
        """The same connections with the rights of a ServiceAccount; we need the right to impersonate it.

        No group is named: the API server adds those of a ServiceAccount by itself, so that the right
        to impersonate that one account is all that this takes.
        """
        for part in account:
            if not part or not _NAME.fullmatch(part):
                raise ValueError(f"{account} is no ServiceAccount")
        user = f"system:serviceaccount:{account.namespace}:{account.name}"
        return Client(self._transport, field_manager=self.field_manager, fence=self._fence, user=user)

    def separate(self, *, timeout: float) -> "Client":
        """The same server and identity over connections of its own, which `close` ends.

        For requests that must not wait behind those of others, and be given up after a time of their own.
        """
        own = self._transport.separate(timeout=timeout)
        return Client(own, field_manager=self.field_manager, fence=self._fence, user=self._user)

    async def close(self) -> None:
        """End the connections, also for all who share them."""
        await self._transport.close()

    async def read(self, path: str, kind: type[T], *, accept: str = WHOLE) -> T:
        """Read a document of the server that is no object: what it serves, and its schemas."""
        answer = await self._transport.request("GET", path, accept=accept, acting_as=self._user)
        return _decode(f"GET {path}", answer, kind)

    async def version(self) -> Version:
        """The server's version."""
        return _decode("GET /version", await self._transport.request("GET", "/version"), Version)

    async def get(self, resource: Resource, key: ObjectKey, kind: type[T]) -> T:
        """Read one object, from the server and not from a cache."""
        path = _path(resource, key.namespace, key.name)
        answer = await self._transport.request("GET", path, acting_as=self._user)
        return _decode(f"GET {path}", answer, kind)

    async def pages(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        page_size: int = 500,
        resource_version: str = "",
        metadata_only: bool = False,
    ) -> AsyncIterator[Page]:
        """Read all objects page by page, so that memory is bounded by the page."""
        params = _selection(labels, fields) | {"limit": str(page_size)}
        if resource_version:
            params["resourceVersion"] = resource_version
        path, accept = _path(resource, namespace), _METADATA_LIST if metadata_only else WHOLE
        while True:
            answer = await self._transport.request(
                "GET", path, params=params, accept=accept, acting_as=self._user
            )
            page = _decode_page(f"GET {path}", answer)
            yield page
            if not page.metadata.continue_:
                return
            params = _selection(labels, fields) | {
                "limit": str(page_size),
                "continue": page.metadata.continue_,
            }

    async def raw(self, path: str) -> bytes:
        """Read something of the server, or of a pod behind it, that is no JSON."""
        return await self._transport.request("GET", path, accept="*/*", acting_as=self._user)

    async def logs(
        self, key: ObjectKey, container: str, *, lines: int, limit: int, previous: bool = False
    ) -> bytes:
        """The last lines of a container's log, of these at most the first `limit` bytes.

        `previous`: the log of the container before its last restart.
        """
        params = {"container": container, "tailLines": str(lines), "limitBytes": str(limit)}
        if previous:
            params["previous"] = "true"
        path = _path(PODS, key.namespace, key.name, "log")
        return await self._transport.request("GET", path, params=params, acting_as=self._user)

    @contextlib.asynccontextmanager
    async def log_lines(
        self, key: ObjectKey, container: str, *, lines: int | None = None, idle_timeout: float = 14_400.0
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Follow a container's log until it ends: batches of lines, from its start or its last `lines` on."""
        params = {"container": container, "follow": "true"}
        if lines is not None:
            params["tailLines"] = str(lines)
        path = _path(PODS, key.namespace, key.name, "log")
        async with self._transport.stream(
            path, params, idle_timeout=idle_timeout, acting_as=self._user
        ) as batches:
            yield batches

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        initial_events: bool = False,
        metadata_only: bool = False,
        timeout: float = 300.0,
        idle_timeout: float = 330.0,
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open one watch: batches of lines, each for `decode_watch_event`."""
        params = _selection(labels, fields) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(timeout)),
        }
        if initial_events:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if resource_version:
            params["resourceVersion"] = resource_version
        path, accept = _path(resource, namespace), _METADATA if metadata_only else WHOLE
        async with self._transport.stream(
            path, params, idle_timeout=idle_timeout, accept=accept, acting_as=self._user
        ) as lines:
            yield lines

    async def create(self, resource: Resource, body: Any, kind: type[T], *, namespace: str = "") -> T:
        """Create an object; `AlreadyExists` if there is one of that name."""
        return await self._write("POST", _path(resource, namespace), body, kind, WHOLE)

    async def replace(
        self, resource: Resource, key: ObjectKey, body: Any, kind: type[T], *, subresource: str = ""
    ) -> T:
        """Replace an object; with a resourceVersion in the body only if nobody changed it since."""
        path = _path(resource, key.namespace, key.name, subresource)
        return await self._write("PUT", path, body, kind, WHOLE)

    async def apply(
        self,
        resource: Resource,
        key: ObjectKey,
        body: Any,
        kind: type[T],
        *,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Server-side apply, or a try at it. A `uid` in the metadata makes sure that it is the one we mean.

        The server says `Invalid` if another object has that name now, `Conflict` if none has.
        """
        path, params = _path(resource, key.namespace, key.name, subresource), {}
        if dry_run:
            params["dryRun"] = "All"
        force_text = "true" if force else "false"
        return await self._write("PATCH", path, body, kind, APPLY, force=force_text, **params)

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        body: Any,
        kind: type[T],
        *,
        content_type: str = MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Change some fields (`MERGE`), or carry out a list of operations (`JSON`); or only try to."""
        path, params = _path(resource, key.namespace, key.name, subresource), {}
        if dry_run:
            params["dryRun"] = "All"
        return await self._write("PATCH", path, body, kind, content_type, **params)

    async def delete(
        self,
        resource: Resource,
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object; with preconditions only if it is still the one that was looked at."""
        body = _delete_options(uid, resource_version, propagation, grace_seconds)
        path = _path(resource, key.namespace, key.name)
        await self._send("DELETE", path, body)

    async def evict(
        self, key: ObjectKey, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """Ask for a pod to leave; `TooManyRequests` while a disruption budget forbids it."""
        body = {
            "apiVersion": EVICTION.api_version,
            "kind": EVICTION.kind,
            "metadata": {"name": key.name, "namespace": key.namespace},
            "deleteOptions": _delete_options(uid, None, None, grace_seconds),
        }
        path = _path(PODS, key.namespace, key.name, "eviction")
        await self._send("POST", path, body)

    async def _send(self, method: str, path: str, body: JsonObject) -> None:
        await self._transport.request(
            method, path, body=_encoder.encode(body), fence=self._fence, acting_as=self._user
        )

    async def _write(
        self, method: str, path: str, body: Any, kind: type[T], content_type: str, **params: str
    ) -> T:
        answer = await self._transport.request(
            method,
            path,
            params={"fieldManager": self.field_manager, **params},
            body=body if isinstance(body, bytes) else _encoder.encode(body),
            content_type=content_type,
            fence=self._fence,
            acting_as=self._user,
        )
        return _decode(f"{method} {path}", answer, kind)


def _path(resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    """The path of an object. Names may come from what users wrote, and must not lead elsewhere."""
    path = resource.path(namespace, name, subresource)
    for part in (namespace, name):
        if part in (".", "..") or not _UNSAFE.isdisjoint(part):
            status = Status(f"{part!r} is not a name", "BadRequest", 400)
            raise BadRequest(f"{resource.qualified} {ObjectKey(namespace, name)}", status)
    return path


def _decode(request: str, answer: bytes, kind: type[T]) -> T:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        decoded: T = decoder.decode(answer)
    except DECODE_ERRORS as error:
        raise UnexpectedAnswer(f"{request}: the answer is no {kind.__name__} ({error})") from error
    return decoded


def _decode_page(request: str, answer: bytes) -> Page:
    try:
        listed = _decode_list(answer)
    except RecursionError:
        listed = _decode(request, cut_nesting(answer), _Listed)
        items = listed.items or ()
        too_deep = tuple(item for item in items if CUT in bytes(item))
        return Page(listed.metadata, tuple(item for item in items if item not in too_deep), too_deep)
    except DECODE_ERRORS as error:
        raise UnexpectedAnswer(f"{request}: the answer is no list ({error})") from error
    return Page(listed.metadata, listed.items or ())


def failure(request: str, line: msgspec.Raw) -> Exception:
    """The error behind an ERROR event of a watch."""
    body = bytes(line)
    code = msgspec.json.decode(body, type=_Code).code
    return error_for(request, code, body)


class _Code(Struct, frozen=True):
    code: int = 0


def _selection(labels: str, fields: str) -> dict[str, str]:
    params = {}
    if labels:
        params["labelSelector"] = labels
    if fields:
        params["fieldSelector"] = fields
    return params


def _delete_options(
    uid: str | None, resource_version: str | None, propagation: str | None, grace_seconds: int | None
) -> JsonObject:
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if any(preconditions.values()):
        options["preconditions"] = {name: value for name, value in preconditions.items() if value}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options
