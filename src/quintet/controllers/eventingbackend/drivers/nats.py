"""Probes backends of type nats: Secret, name, address, connection, TLS, login, JetStream, stream.

Every stage has its own failure reason. Texts of the server are not shown unless they come from JetStream:
users must not read through the operator what a server tells strangers.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from quintet.apis.eventingbackend import NATS, Effective, EventingBackend
from quintet.apis.eventingbackend.addresses import parse_endpoint
from quintet.apis.meta import ObjectKey
from quintet.controllers.eventingbackend.decide.desired import DataPlane
from quintet.controllers.eventingbackend.decide.plan import former_subjects
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from quintet.controllers.eventingbackend.drivers.addresses import resolve_addresses
from quintet.controllers.eventingbackend.drivers.driver import Driver
from quintet.controllers.eventingbackend.migration import StreamLocation
from quintet.eventing import streams
from quintet.eventing.children import runs_server, server_url
from quintet.eventing.decide import naming
from quintet.eventing.dispatcher.decide.retry_policy import RetryPolicy
from quintet.eventing.settings import CREDENTIALS, DispatcherSettings, NatsSettings, PublisherSettings
from quintet.nats import errors
from quintet.nats.client import NatsClient
from quintet.nats.config import ConsumerConfig, StreamConfig
from quintet.nats.credentials import from_secret
from quintet.nats.jetstream import JetStream
from quintet.nats.options import NatsOptions

_CONNECT_SECONDS: Final = 5.0
_MEANINGS: Final[tuple[tuple[type[errors.NatsError], Reason, str], ...]] = (
    (errors.Unresolved, Reason.UNRESOLVED, "its name cannot be resolved"),
    (errors.ServerUnreachable, Reason.UNREACHABLE, "no connection: check host, port and network policies"),
    (errors.CertificateExpired, Reason.CERTIFICATE_EXPIRED, "its certificate has expired: renew it"),
    (
        errors.TlsFailed,
        Reason.TLS_FAILED,
        "its certificate is not trusted: check ca.crt in the Secret and the name in the certificate",
    ),
    (
        errors.LoginRefused,
        Reason.LOGIN_REFUSED,
        "it refuses the login: check the Secret that credentialsSecretRef names",
    ),
    (errors.ProtocolError, Reason.NO_NATS, "it is not a NATS server"),
    (
        errors.NotPermitted,
        Reason.NOT_PERMITTED,
        "the user has no permission to manage the stream: allow $JS.API.> and its inboxes",
    ),
    (
        errors.JetStreamUnavailable,
        Reason.NO_JETSTREAM,
        "JetStream is not enabled on the server or for this account",
    ),
    (errors.NotReady, Reason.SERVER_FAILED, "JetStream currently has no leader or too few servers"),
    (errors.NatsError, Reason.SERVER_FAILED, "no valid response; the request is retried"),
)


class NatsDriver(Driver):
    """Driver of a JetStream stream on a NATS server."""

    backend = NATS

    @staticmethod
    def data_plane(backend: EventingBackend, config: Effective) -> DataPlane:
        """Return the publishers and dispatchers of the stream."""
        secret, meta = config.text("credentialsSecretRef"), backend.metadata
        nats = NatsSettings(
            url=server_url(backend.key, config),
            stream=config.text("streamName"),
            subject_prefix=config.text("streamSubjectPrefix"),
            max_reconnects=config.integer("maxReconnects"),
            reconnect_seconds=float(config.measure("reconnectWait")),
            credentials=CREDENTIALS if secret else "",
        )
        prefix = config.text("eventTypePrefix")
        return DataPlane(
            publisher=PublisherSettings(
                namespace=meta.namespace,
                backend=meta.name,
                event_type_prefix=prefix,
                request_seconds=float(config.measure("publisherRequestTimeout")),
                nats=nats,
            ),
            publisher_replicas=config.integer("publisherReplicas"),
            dispatcher=DispatcherSettings(
                namespace=meta.namespace,
                backend=meta.name,
                event_type_prefix=prefix,
                nats=nats,
                max_in_flight=config.integer("maxInFlightMessages"),
                deliver_policy=config.text("consumerDeliverPolicy"),
                dead_letter_subject=config.text("deadLetterSubject"),
                retry_policy=_retry_policy(config),
            ),
            dispatcher_replicas=config.integer("dispatcherReplicas"),
            secret=secret,
        )

    async def probe(
        self, backend: EventingBackend, config: Effective, old: StreamLocation | None
    ) -> ProbeResult:
        """Probe everything from the Secret to the stream."""
        url = server_url(backend.key, config)
        kept = {each.stream_subject_prefix for each in former_subjects(backend, config)}
        if old is not None and old.same_stream(StreamLocation(url, config.text("streamName"))):
            kept.add(old.prefixes[0])
        address = f"{parse_endpoint(url).host}:{parse_endpoint(url).port}"
        try:
            secret, own = config.text("credentialsSecretRef"), runs_server(config)
            connected = await self.connect(backend.key, url, secret, own=own)
            if isinstance(connected, ProbeResult):
                return connected
            client, version = connected
            jetstream = JetStream(client)
            problem = await self._ensure_streams(jetstream, backend, config, kept)
            problem = problem or await _find_refused_subject(jetstream, config, address)
            full = "" if problem is not None else await _find_full_limit(jetstream, config)
        except errors.NatsError as error:
            return result_of_error(error, address)
        if problem is not None:
            return problem
        stream = f"stream {config.text('streamName')} on {address}"
        if full:
            text = (
                f"{stream} refuses events: raise {full}, or check why Subscriptions do not take their events"
            )
            return ProbeResult(Reason.STREAM_FULL, text, version)
        return ProbeResult(message=stream, secret_version=version)

    async def release(self, backend: EventingBackend) -> None:
        """Remove the owner mark from the streams, if the server is reachable; then disconnect."""
        for url in self._tools.sessions.urls(backend.key):
            client = self._tools.sessions.current(backend.key, url)
            names = {entry.name: entry.value for entry in backend.status.effective_config}
            if client is not None and (stream := names.get("streamName")):
                for name in (stream, streams.retry_stream(stream), streams.dead_letter_stream(stream)):
                    await _unmark(JetStream(client), backend, name)
        await super().release(backend)

    async def connect_to(
        self, key: ObjectKey, location: StreamLocation
    ) -> tuple[NatsClient, str] | ProbeResult:
        """Return a connection to the server of a stream, as `connect` does."""
        return await self.connect(key, location.url, location.secret, own=location.own)

    async def connect(
        self, key: ObjectKey, url: str, secret_name: str, *, own: bool
    ) -> tuple[NatsClient, str] | ProbeResult:
        """Return a connection and the version of the Secret that it uses; raises `NatsError`.

        The address of the operator's own server is not checked.
        """
        credentials, version = None, ""
        if secret_name:
            secret = await self._tools.secrets.read(ObjectKey(key.namespace, secret_name))
            if isinstance(secret, ProbeResult):
                return secret
            try:
                credentials, version = from_secret(secret.data), secret.version
            except errors.CredentialsError as error:
                return ProbeResult(Reason.SECRET_MALFORMED, f"Secret {secret_name}, key {error}")
        known = self._tools.sessions.current(key, url, version)
        if known is not None:
            return known, version
        where = parse_endpoint(url)
        addresses = await resolve_addresses(where.host, where.port, None if own else self._tools.limits)
        if isinstance(addresses, ProbeResult):
            return addresses
        options = NatsOptions(
            url,
            credentials=credentials,
            name="quintet",
            max_reconnects=0,
            connect_seconds=_CONNECT_SECONDS,
            addresses=addresses,
        )
        return await self._tools.sessions.open(key, options, version), version

    async def _ensure_streams(
        self, jetstream: JetStream, backend: EventingBackend, config: Effective, kept: Iterable[str]
    ) -> ProbeResult | None:
        retries = streams.retry_config(backend, config)
        for wanted, subject_key in (
            (streams.stream_config(backend, config, sorted(kept)), "streamSubjectPrefix"),
            (retries, "streamName"),
            (streams.dead_letter_config(backend, config), "deadLetterSubject"),
        ):
            try:
                if (problem := await self._ensure_stream(jetstream, backend, wanted)) is not None:
                    return problem
                if wanted is retries:
                    await _ensure_consumer(jetstream, retries.name, streams.retry_consumer())
            except errors.NotReady:
                raise
            except errors.JetStreamError as error:
                return ProbeResult(Reason.STREAM_REFUSED, _refusal(wanted.name, error, subject_key))
        return None

    async def _ensure_stream(
        self, jetstream: JetStream, backend: EventingBackend, wanted: StreamConfig
    ) -> ProbeResult | None:
        try:
            found = await jetstream.stream_info(wanted.name)
        except errors.StreamNotFound:
            try:
                await jetstream.create_stream(wanted)
                return None
            except errors.NameInUse:
                # Another backend created it at the same moment; at least the owner mark differs.
                found = await jetstream.stream_info(wanted.name)
        # Before anything else: whoever uses the stream of another backend gets its events or fills it.
        if (problem := _ownership_problem(backend, wanted, found.config)) is not None:
            return problem
        if streams.differences(wanted, found.config):
            await jetstream.update_stream(streams.merge_config(wanted, found.config))
        return None


def _retry_policy(config: Effective) -> RetryPolicy:
    statuses = config.text("deliveryPermanentStatuses")
    return RetryPolicy(
        max_attempts=config.integer("deliveryAttempts"),
        min_backoff=float(config.measure("deliveryMinBackoff")),
        max_backoff=float(config.measure("deliveryMaxBackoff")),
        timeout=float(config.measure("deliveryTimeout")),
        permanent=() if statuses == "none" else tuple(map(int, statuses.split(","))),
        backoff_factor=config.integer("deliveryBackoffFactor"),
        retry_after_max=float(config.measure("deliveryRetryAfterMax")),
        keeps_dead_letters=config.text("deadLetters") == "keep",
    )


def result_of_error(error: errors.NatsError, address: str) -> ProbeResult:
    """Return the probe result for an error."""
    reason, text = next((reason, text) for kind, reason, text in _MEANINGS if isinstance(error, kind))
    return ProbeResult(reason, f"{address}: {text}")


async def _find_refused_subject(jetstream: JetStream, config: Effective, address: str) -> ProbeResult | None:
    """Return the result for a subject that pods need and the user may not publish to."""
    stream, prefix = config.text("streamName"), config.text("streamSubjectPrefix")
    needed = {
        f"{prefix}.>": f"{prefix}.quintet.probe",
        naming.retry_subject(stream, "*"): naming.retry_subject(stream, "quintet-probe"),
        naming.dead_letter_subject(config.text("deadLetterSubject"), "*"): naming.dead_letter_subject(
            config.text("deadLetterSubject"), "quintet-probe"
        ),
    }
    for name in (stream, streams.retry_stream(stream)):
        needed[f"$JS.API.CONSUMER.MSG.NEXT.{name}.>"] = f"$JS.API.CONSUMER.MSG.NEXT.{name}.quintet-probe"
        needed[f"$JS.ACK.{name}.>"] = f"$JS.ACK.{name}.quintet-probe.1.1.1.1.0"
    checks = await asyncio.gather(
        *(jetstream.check_publish(subject) for subject in needed.values()), return_exceptions=True
    )
    for shown, failed in zip(needed, checks, strict=True):
        if isinstance(failed, errors.NotPermitted):
            text = f"{address}: the user has no permission to publish to {shown}: allow it"
            return ProbeResult(Reason.NOT_PERMITTED, text)
        if isinstance(failed, BaseException):
            raise failed
    return None


async def _find_full_limit(jetstream: JetStream, config: Effective) -> str:
    """Return the option whose limit makes the stream refuse events; empty if it accepts them."""
    found = await jetstream.stream_info(config.text("streamName"))
    if limit := streams.full_limit(found):
        return limit
    if 0 < found.config.max_msgs_per_subject <= found.state.messages:
        return streams.full_limit(await jetstream.stream_info(found.config.name, ">"))
    return ""


def _ownership_problem(
    backend: EventingBackend, wanted: StreamConfig, found: StreamConfig
) -> ProbeResult | None:
    """Return why a backend must not use an existing stream.

    None if it is its own, or nobody's and has no other subjects.
    """
    owner = streams.owner_of(found)
    if owner == backend.key or (owner is None and set(found.subjects) <= set(wanted.subjects)):
        return None
    if owner is None:
        text = f"stream {wanted.name} exists with other subjects and does not belong to an EventingBackend"
        return ProbeResult(Reason.CLAIMED, f"{text}: choose another streamName")
    return ProbeResult(
        Reason.CLAIMED,
        f"stream {wanted.name} belongs to EventingBackend {owner}: choose another streamName and "
        "streamSubjectPrefix; if that backend is gone, remove "
        f"{streams.OWNER} from the metadata of the stream",
    )


def _refusal(stream: str, error: errors.JetStreamError, subject_key: str) -> str:
    text = f"stream {stream}: {error.description[:200]} (error {error.err_code})"
    if isinstance(error, errors.SubjectsInUse):
        return f"{text}: choose another {subject_key}"
    if isinstance(error, errors.StreamFull):
        return f"{text}: lower maxBytes or deadLetterMaxBytes, or give the server more storage"
    return f"{text}: choose another streamName, or delete the stream so that it is created again"


async def _ensure_consumer(jetstream: JetStream, stream: str, wanted: ConsumerConfig) -> None:
    try:
        await jetstream.consumer_info(stream, wanted.durable_name)
    except errors.ConsumerNotFound:
        await jetstream.create_or_update_consumer(stream, wanted)


async def _unmark(jetstream: JetStream, backend: EventingBackend, stream: str) -> None:
    try:
        found = (await jetstream.stream_info(stream)).config
        if streams.is_marked_for(backend, found):
            await jetstream.update_stream(streams.without_owner(found))
    except errors.NatsError:
        # A backend that meets a remaining mark reports how to remove it.
        return
