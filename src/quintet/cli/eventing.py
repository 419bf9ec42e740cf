"""From options of `run` to what the controller of backends works with. Called by `run`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from quintet.apis.eventingbackend.addresses import Limits
from quintet.apis.meta import Object, ObjectKey, Resource, Struct
from quintet.controllers.eventingbackend.options import Options
from quintet.kube.errors import TRANSIENT, KubeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quintet.kube.client import Client

_ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
_API_SERVERS = ObjectKey("default", "kubernetes")

log = logging.getLogger(__name__)


class _Endpoint(Struct, frozen=True):
    addresses: tuple[str, ...] = ()


class _EndpointSlice(Object, frozen=True):
    endpoints: tuple[_Endpoint, ...] | None = None


class Networks(click.ParamType[tuple[str, ...]]):
    """Networks and addresses, separated by commas."""

    name = "networks"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Check that each is one."""
        if isinstance(value, tuple):
            return value
        networks = tuple(part.strip() for part in value.split(",") if part.strip())
        try:
            Limits.of(refused=networks)
        except ValueError as error:
            self.fail(f"{error}; write networks such as 10.0.0.0/8,fd00::/8", param, ctx)
        return networks


async def options(
    client: Client,
    server: str,
    *,
    system_namespace: str,
    account: str,
    image: str,
    nats_image: str,
    refused: Iterable[str],
    allowed: Iterable[str],
) -> Options:
    """What backends are made of, and where users must not have us connect to."""
    known = {*await _resolved(server), *await _endpoints(client)}
    if service := os.environ.get("KUBERNETES_SERVICE_HOST"):
        known |= await _resolved(f"https://{service}")
    return Options(
        image=image,
        nats_image=nats_image,
        limits=Limits.of(api_server=sorted(known), refused=refused, allowed=allowed),
        system_namespace=system_namespace,
        account=f"{system_namespace}:{account}",
    )


async def _resolved(url: str) -> set[str]:
    parts = urlsplit(url)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, 443, type=socket.SOCK_STREAM)
    except OSError:
        return set()  # behind a proxy that resolves it
    # An address with a scope is link-local, and refused as such.
    return {str(address[0]) for *_, address in found if "%" not in str(address[0])}


async def _endpoints(client: Client) -> set[str]:
    try:
        found = await client.get(_ENDPOINT_SLICES, _API_SERVERS, _EndpointSlice)
    except TRANSIENT:
        raise  # users must not have us connect there, so we have to know
    except KubeError as error:
        log.warning("Addresses behind the API server are not known", extra={"error": str(error)})
        return set()
    return {address for endpoint in found.endpoints or () for address in endpoint.addresses}
