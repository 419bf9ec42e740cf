"""Probes backends of type beb: Secret, addresses, token."""

from typing import Final

from quintet.apis.eventingbackend import BEB, Effective, EventingBackend
from quintet.apis.eventingbackend.addresses import parse_endpoint
from quintet.apis.meta import ObjectKey
from quintet.controllers.eventingbackend.decide.desired import DataPlane
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from quintet.controllers.eventingbackend.drivers.addresses import resolve_addresses
from quintet.controllers.eventingbackend.drivers.driver import Driver
from quintet.controllers.eventingbackend.migration import StreamLocation
from quintet.eventing import oauth
from quintet.eventing.decide.eventmesh import MALFORMED, NOT_FOUND, EventMesh, SecretError, from_secret
from quintet.eventing.settings import CREDENTIALS, BebSettings, PublisherSettings
from quintet.eventing.tokens import TokenError
from quintet.web.http_client import HttpClient, HttpError

_SECONDS: Final = 5.0


class BebDriver(Driver):
    """Driver of Event Mesh, which delivers events itself."""

    backend = BEB

    @staticmethod
    def data_plane(backend: EventingBackend, config: Effective) -> DataPlane:
        """Return the publisher; Event Mesh needs no dispatcher."""
        return DataPlane(
            publisher=PublisherSettings(
                namespace=backend.metadata.namespace,
                backend=backend.metadata.name,
                event_type_prefix=config.text("eventTypePrefix"),
                request_seconds=float(config.measure("publisherRequestTimeout")),
                beb=BebSettings(credentials=CREDENTIALS, qos=config.text("qos")),
            ),
            publisher_replicas=config.integer("publisherReplicas"),
            secret=config.text("secretRef"),
        )

    async def probe(
        self, backend: EventingBackend, config: Effective, old: StreamLocation | None
    ) -> ProbeResult:
        """Probe the Secret, the addresses and the token endpoint."""
        name = config.text("secretRef")
        secret = await self._tools.secrets.read(ObjectKey(backend.metadata.namespace, name))
        if isinstance(secret, ProbeResult):
            missing = secret.reason is Reason.SECRET_MISSING
            return ProbeResult(secret.reason, NOT_FOUND) if missing else secret
        try:
            mesh = from_secret(secret.data)
        except SecretError as error:
            return ProbeResult(Reason.SECRET_MALFORMED, f"{MALFORMED} {error.detail}")
        problem = await self._token_problem(mesh)
        if problem is not None:
            return problem
        return ProbeResult(
            message=f"EventMesh of Secret {name} issued a token", secret_version=secret.version
        )

    async def _token_problem(self, mesh: EventMesh) -> ProbeResult | None:
        # Publishers connect there: the address must be permitted too.
        events = await self._allowed_addresses(mesh.publish_url)
        tokens = await self._allowed_addresses(mesh.token_url)
        if isinstance(events, ProbeResult):
            return events
        if isinstance(tokens, ProbeResult):
            return tokens
        caller = HttpClient(mesh.token_url, self._tools.clock, _SECONDS, tokens)
        try:
            await oauth.fetch_token(mesh, caller)
        except TokenError as error:
            lost = isinstance(error.__cause__, HttpError)
            return ProbeResult(Reason.UNREACHABLE if lost else Reason.TOKEN_REFUSED, str(error))
        finally:
            caller.close()
        return None

    async def _allowed_addresses(self, url: str) -> tuple[str, ...] | ProbeResult:
        where = parse_endpoint(url)
        return await resolve_addresses(where.host, where.port, self._tools.limits)
