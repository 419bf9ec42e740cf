"""The options of the EventingBackend controller, from those of the process and from the cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from quintet.apis.eventingbackend.addresses import NetworkLimits
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


async def eventing_options(
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
    """Return the options, with the addresses of the API server, to which no backend may connect."""
    known = {*await _resolve(server), *await _read_endpoints(client)}
    if service := os.environ.get("KUBERNETES_SERVICE_HOST"):
        known |= await _resolve(f"https://{service}")
    return Options(
        image=image,
        nats_image=nats_image,
        limits=NetworkLimits.of(api_server=sorted(known), refused=refused, allowed=allowed),
        system_namespace=system_namespace,
        account=f"{system_namespace}:{account}",
    )


async def _resolve(url: str) -> set[str]:
    parts = urlsplit(url)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, 443, type=socket.SOCK_STREAM)
    except OSError:
        return set()  # a proxy resolves the name
    # An address with a scope is link-local and refused anyway.
    return {str(address[0]) for *_, address in found if "%" not in str(address[0])}


async def _read_endpoints(client: Client) -> set[str]:
    try:
        found = await client.get(_ENDPOINT_SLICES, _API_SERVERS, _EndpointSlice)
    except TRANSIENT:
        raise  # without these addresses, a backend could connect to the API server
    except KubeError as error:
        log.warning("Cannot read the endpoints of the API server", extra={"error": str(error)})
        return set()
    return {address for endpoint in found.endpoints or () for address in endpoint.addresses}
