"""Posts events to sinks over pooled connections; responses and waiting times are bounded.

Redirects are not followed: a redirect counts as a failed delivery. A sink is a Service, and an ExternalName
Service can point anywhere, so the addresses of its name are checked before connecting to one of them.
"""

import functools
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quintet.apis.eventingbackend.addresses import NetworkLimits, find_refusal
from quintet.clock import Clock
from quintet.eventing.dispatcher.decide.outgoing_event import OutgoingEvent
from quintet.eventing.dispatcher.decide.retry_policy import DeliveryResult, parse_retry_after
from quintet.web.connection import Connection, ConnectionTarget, connect, resolve
from quintet.web.http_client import HttpOrigin, encode_post, parse_endpoint
from quintet.web.pool import ConnectionPool

MAX_IDLE: Final = 512
"""Idle connections per sink: as many as there can be events in flight."""
IDLE_SECONDS: Final = 10.0


class _ForbiddenSink(Exception):
    """A sink whose addresses must not be used."""


@dataclass(slots=True)
class SinkClient:
    """Posts events to sinks; one instance per process."""

    clock: Clock
    limits: NetworkLimits
    overrides: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Hosts that are reached at another address: on a developer's machine no Service name resolves."""
    _pool: ConnectionPool = field(init=False)
    _tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self._pool = ConnectionPool(self.clock, idle_seconds=IDLE_SECONDS, max_idle=MAX_IDLE)

    async def post(self, url: str, event: OutgoingEvent, timeout: float) -> DeliveryResult:
        """Try once to deliver an event. A failure is returned as a `DeliveryResult`, never raised."""
        endpoint = parse_endpoint(url)
        origin = endpoint.origin
        request = encode_post(endpoint, event.headers, event.body)
        try:
            connect_sink = functools.partial(self._connect, origin)
            response = await self._pool.exchange(origin, connect_sink, request, timeout)
            wait = parse_retry_after(response.retry_after, self.clock.now()) if response.retry_after else 0.0
            return DeliveryResult(response.status, retry_after=wait)
        except TimeoutError:
            return DeliveryResult(0, f"no response within {timeout:g} s")
        except _ForbiddenSink as error:
            return DeliveryResult(0, str(error))
        except socket.gaierror as error:
            return DeliveryResult(0, f"cannot resolve host {origin.host}: {error.strerror}")
        except (OSError, ssl.CertificateError) as error:
            return DeliveryResult(0, f"no response: {error.strerror or error}")

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    async def _connect(self, origin: HttpOrigin) -> Connection:
        if override := self.overrides.get(origin.host):
            addresses: Sequence[str] = (override[0],)
            port = override[1]
        else:
            addresses, port = await resolve(origin.host, origin.port), origin.port
            if refusal := find_refusal(origin.host, addresses, self.limits):
                raise _ForbiddenSink(refusal)
        if origin.tls and self._tls is None:
            self._tls = ssl.create_default_context()
        tls = self._tls if origin.tls else None
        return await connect(ConnectionTarget(origin.url(port), tls, origin.host, addresses=tuple(addresses)))
