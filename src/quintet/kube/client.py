"""A typed client for the API server: get, list, watch, create, update, apply, patch, delete.

Responses are decoded into the struct that the caller passes, so that a caller pays only for the fields that
it reads.
"""

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import msgspec

from quintet.apis.decoding import CUT, DECODE_ERRORS, cut_nesting
from quintet.apis.meta import JsonObject, ObjectKey, Resource, Struct
from quintet.kube.errors import BadRequest, Status, UnexpectedResponse, error_for
from quintet.kube.parameters import delete_options, selector_params
from quintet.kube.transport import JSON as WHOLE
from quintet.kube.transport import Fence, Transport

T = TypeVar("T")

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
# Servers without PartialObjectMetadata send the complete objects.
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METADATA_LIST = _METADATA.replace("Metadata;", "MetadataList;")

EVICTION = Resource("policy", "v1", "Eviction", "evictions")
PODS = Resource("", "v1", "Pod", "pods")
SERVICES = Resource("", "v1", "Service", "services")


class ListMeta(Struct, frozen=True):
    """The resource version of a list, and the token of its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(Struct, frozen=True):
    """One page of a list, with undecoded items."""

    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] = ()
    too_deep: tuple[msgspec.Raw, ...] = ()
    """The items that are nested too deeply, without what `cut_nesting` removes: only to identify them."""


class _Listed(Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    # The items of an empty metadata list are null.
    items: tuple[msgspec.Raw, ...] | None = None


class WatchEvent(Struct, frozen=True):
    """One event of a watch, with an undecoded object."""

    type: str
    object: msgspec.Raw


class Version(Struct, frozen=True):
    """The response of `/version`."""

    git_version: str = ""
    major: str = ""
    minor: str = ""


# Characters that would change the meaning of a URL path.
_UNSAFE = frozenset("/%?#\\")
# Names that are safe in a header: no line breaks.
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
        """Return a client with the same connections and another field manager."""
        return Client(self._transport, field_manager=field_manager, fence=self._fence, user=self._user)

    def with_fence(self, fence: Fence) -> "Client":
        """Return a client with the same connections that writes only while `fence` returns True."""
        return Client(self._transport, field_manager=self.field_manager, fence=fence, user=self._user)

    def impersonate(self, service_account: ObjectKey) -> "Client":
        """Return a client with the same connections that impersonates a ServiceAccount.

        It sends no groups: the API server adds those of the ServiceAccount, so that the permission to
        impersonate this one ServiceAccount is sufficient.
        """
        for part in service_account:
            if not part or not _NAME.fullmatch(part):
                raise ValueError(f"{service_account} is not a valid ServiceAccount name")
        user = f"system:serviceaccount:{service_account.namespace}:{service_account.name}"
        return Client(self._transport, field_manager=self.field_manager, fence=self._fence, user=user)

    def separate(self, *, timeout: float) -> "Client":
        """Return a client with the same server and identity, but separate connections and its own timeout.

        For requests that must not wait behind others. Call `close` after use.
        """
        own = self._transport.separate(timeout=timeout)
        return Client(own, field_manager=self.field_manager, fence=self._fence, user=self._user)

    async def close(self) -> None:
        """Close the connections, also for other clients that share them."""
        await self._transport.close()

    def identity_problem(self) -> str | None:
        return self._transport.identity.problem()

    async def read(self, path: str, kind: type[T], *, accept: str = WHOLE) -> T:
        """Read a document that is not an object, such as discovery and OpenAPI."""
        response = await self._transport.request("GET", path, accept=accept, impersonate=self._user)
        return _decode(f"GET {path}", response, kind)

    async def version(self) -> Version:
        """Return the version of the server."""
        return _decode("GET /version", await self._transport.request("GET", "/version"), Version)

    async def get(self, resource: Resource, key: ObjectKey, kind: type[T]) -> T:
        """Read one object from the server, not from a cache."""
        path = _path(resource, key.namespace, key.name)
        response = await self._transport.request("GET", path, impersonate=self._user)
        return _decode(f"GET {path}", response, kind)

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
        """List objects page by page, so that memory is bounded by the page size."""
        params = selector_params(labels, fields) | {"limit": str(page_size)}
        if resource_version:
            params["resourceVersion"] = resource_version
        path, accept = _path(resource, namespace), _METADATA_LIST if metadata_only else WHOLE
        while True:
            response = await self._transport.request(
                "GET", path, params=params, accept=accept, impersonate=self._user
            )
            page = _decode_page(f"GET {path}", response)
            yield page
            if not page.metadata.continue_:
                return
            params = selector_params(labels, fields) | {
                "limit": str(page_size),
                "continue": page.metadata.continue_,
            }

    async def raw(self, path: str) -> bytes:
        """Read a path whose response is not JSON, such as metrics or a pod proxy."""
        return await self._transport.request("GET", path, accept="*/*", impersonate=self._user)

    async def logs(
        self, key: ObjectKey, container: str, *, lines: int, limit: int, previous: bool = False
    ) -> bytes:
        """Return the last lines of a container's log, cut after `limit` bytes.

        `previous` reads the log of the container before its last restart.
        """
        params = {"container": container, "tailLines": str(lines), "limitBytes": str(limit)}
        if previous:
            params["previous"] = "true"
        path = _path(PODS, key.namespace, key.name, "log")
        return await self._transport.request("GET", path, params=params, impersonate=self._user)

    @contextlib.asynccontextmanager
    async def log_lines(
        self, key: ObjectKey, container: str, *, lines: int | None = None, idle_timeout: float = 14_400.0
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Follow a container's log from its start or its last `lines`; yields batches of lines."""
        params = {"container": container, "follow": "true"}
        if lines is not None:
            params["tailLines"] = str(lines)
        path = _path(PODS, key.namespace, key.name, "log")
        async with self._transport.stream(
            path, params, idle_timeout=idle_timeout, impersonate=self._user
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
        """Open one watch; yields batches of lines for `decode_watch_event`."""
        params = selector_params(labels, fields) | {
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
            path, params, idle_timeout=idle_timeout, accept=accept, impersonate=self._user
        ) as lines:
            yield lines

    async def create(self, resource: Resource, body: Any, kind: type[T], *, namespace: str = "") -> T:
        """Create an object; raises `AlreadyExists`."""
        return await self._write("POST", _path(resource, namespace), body, kind, WHOLE)

    async def replace(
        self, resource: Resource, key: ObjectKey, body: Any, kind: type[T], *, subresource: str = ""
    ) -> T:
        """Replace an object; with a resourceVersion in the body only if it has not changed since."""
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
        """Apply an object (server-side apply). A `uid` in its metadata protects an object that was recreated.

        With a `uid`, raises `Invalid` if another object has that name, and `Conflict` if none has.
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
        """Patch an object with a merge patch (`MERGE`) or a JSON patch (`JSON`)."""
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
        """Delete an object; with preconditions only if it still has that uid and resourceVersion."""
        body = delete_options(uid, resource_version, propagation, grace_seconds)
        path = _path(resource, key.namespace, key.name)
        await self._send("DELETE", path, body)

    async def evict(
        self, key: ObjectKey, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """Evict a pod; raises `TooManyRequests` while a PodDisruptionBudget forbids it."""
        body = {
            "apiVersion": EVICTION.api_version,
            "kind": EVICTION.kind,
            "metadata": {"name": key.name, "namespace": key.namespace},
            "deleteOptions": delete_options(uid, None, None, grace_seconds),
        }
        path = _path(PODS, key.namespace, key.name, "eviction")
        await self._send("POST", path, body)

    async def post_to_service(
        self, service: ObjectKey, port: int, path: str, body: bytes, content_type: str
    ) -> None:
        """Send a POST request to a Service, through the proxy of the API server.

        An error has the status and the text of the response, whoever sent it.
        """
        await self._transport.request(
            "POST",
            _path(SERVICES, service.namespace, f"{service.name}:{port}", f"proxy/{path}"),
            body=body,
            content_type=content_type,
            fence=self._fence,
            impersonate=self._user,
        )

    async def _send(self, method: str, path: str, body: JsonObject) -> None:
        await self._transport.request(
            method, path, body=_encoder.encode(body), fence=self._fence, impersonate=self._user
        )

    async def _write(
        self, method: str, path: str, body: Any, kind: type[T], content_type: str, **params: str
    ) -> T:
        response = await self._transport.request(
            method,
            path,
            params={"fieldManager": self.field_manager, **params},
            body=body if isinstance(body, bytes) else _encoder.encode(body),
            content_type=content_type,
            fence=self._fence,
            impersonate=self._user,
        )
        return _decode(f"{method} {path}", response, kind)


def _path(resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the path of an object; names from users must not lead to another path."""
    path = resource.path(namespace, name, subresource)
    for part in (namespace, name):
        if part in (".", "..") or not _UNSAFE.isdisjoint(part):
            status = Status(f"{part!r} is not a valid name", "BadRequest", 400)
            raise BadRequest(f"{resource.qualified} {ObjectKey(namespace, name)}", status)
    return path


def _decode(request: str, body: bytes, kind: type[T]) -> T:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        decoded: T = decoder.decode(body)
    except DECODE_ERRORS as error:
        raise UnexpectedResponse(
            f"{request}: the response is not a valid {kind.__name__} ({error})"
        ) from error
    return decoded


def _decode_page(request: str, body: bytes) -> Page:
    try:
        listed = _decode_list(body)
    except RecursionError:
        listed = _decode(request, cut_nesting(body), _Listed)
        items = listed.items or ()
        too_deep = tuple(item for item in items if CUT in bytes(item))
        return Page(listed.metadata, tuple(item for item in items if item not in too_deep), too_deep)
    except DECODE_ERRORS as error:
        raise UnexpectedResponse(f"{request}: the response is not a valid list ({error})") from error
    return Page(listed.metadata, listed.items or ())


def watch_error(request: str, line: msgspec.Raw) -> Exception:
    """Return the error of an ERROR event of a watch."""
    body = bytes(line)
    code = msgspec.json.decode(body, type=_Code).code
    return error_for(request, code, body)


class _Code(Struct, frozen=True):
    code: int = 0
