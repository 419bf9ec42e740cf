"""Leader election with a Lease, and a fence in front of every write.

The fence compares the time of the last renewal with the clock immediately before a write leaves the process,
so a leader that was frozen past its lease writes nothing after it wakes up. It closes at the renew deadline,
five seconds before another process may take the Lease. Renewals have a connection of their own, so that they
never wait behind the requests of the controllers.
"""

import asyncio
import logging
import math
from dataclasses import dataclass

from quintet.apis.meta import JsonObject, Object, ObjectKey, ObjectMeta, OwnerReference, Resource, Struct
from quintet.clock import Clock, micro_timestamp
from quintet.kube.client import Client
from quintet.kube.errors import Conflict, KubeError, NotFound
from quintet.observe import metrics

LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")

log = logging.getLogger(__name__)


class LeaseSpec(Struct, frozen=True):
    """The holder of a Lease, and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    """A Lease of the API server."""

    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True, slots=True)
class Terms:
    """Timing of leader election in seconds: lease duration, renew deadline, retry period."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    owner: OwnerReference | None = None
    """The owner of the Lease, whose deletion deletes it."""

    @property
    def timeout(self) -> float:
        """Return the timeout of one request: after one that hangs, a second fits before the deadline."""
        return self.renew_deadline / 2


class Leader:
    """The leader election of one replica. Its client should have a connection of its own (`Client.apart`)."""

    def __init__(
        self, client: Client, key: ObjectKey, identity: str, clock: Clock, terms: Terms | None = None
    ) -> None:
        self._client = client
        self._key = key
        self._identity = identity
        self._clock = clock
        self.terms = terms or Terms()
        self._lease: Lease | None = None
        # When this process first saw the current version of the Lease: clocks of other machines may be wrong.
        self._observed_at, self._renewed_at = float("-inf"), float("-inf")
        self._status = metrics.leader_status.labels(key.name)
        self._status.set(0)

    def holds(self) -> bool:
        """Return whether a write may leave the process now."""
        return self._clock.monotonic() - self._renewed_at < self.terms.renew_deadline

    async def acquire(self) -> None:
        """Wait until this process is the leader."""
        while not await self._acquire_or_renew():
            await self._clock.sleep(self.terms.retry)
        self._status.set(1)
        log.info("Leading", extra={"lease": str(self._key), "identity": self._identity})

    async def keep(self) -> None:
        """Renew the Lease until it is lost."""
        while self.holds():
            await self._clock.sleep(self.terms.retry)
            # After waking up too late, acquire again: another process may have led in between.
            if self.holds():
                await self._acquire_or_renew()
        self._status.set(0)
        log.warning("Leadership lost", extra={"lease": str(self._key), "identity": self._identity})

    async def release(self) -> None:
        """Release the Lease, so that another replica need not wait for its end."""
        held, self._renewed_at = self.holds(), float("-inf")
        self._status.set(0)
        try:
            async with asyncio.timeout(self.terms.retry):
                while held and self._lease and self._lease.spec.holder_identity == self._identity:
                    try:
                        self._lease = await self._client.replace(LEASES, self._key, self._body("", 1), Lease)
                    except Conflict:
                        # A renewal that was cancelled may have reached the server.
                        await self._observe()
        except (KubeError, TimeoutError) as error:
            log.info("Lease not released", extra={"lease": str(self._key), "error": str(error)})

    async def _acquire_or_renew(self) -> bool:
        """Acquire or renew the Lease if it is free or ours.

        Our renewal counts from before the request was sent, that of another process from after the response:
        however slow the server is, this process stops writing before another one starts.
        """
        started = self._clock.monotonic()
        try:
            if self._lease is None or not self.holds():
                await self._observe()
            if self._is_held_by_other(started):
                self._renewed_at = float("-inf")
                return False
            body = self._body(self._identity, self.terms.duration)
            if self._lease is None:
                taken = await self._client.create(LEASES, body, Lease, namespace=self._key.namespace)
            else:
                taken = await self._client.replace(LEASES, self._key, body, Lease)
            self._lease = taken
        except (Conflict, NotFound):
            self._lease = None  # another process was faster, or somebody deleted it: read it again
            return False
        except KubeError as error:
            log.warning("Lease not renewed", extra={"lease": str(self._key), "error": str(error)})
            return False
        self._renewed_at = started
        return True

    async def _observe(self) -> None:
        try:
            lease = await self._client.get(LEASES, self._key, Lease)
        except NotFound:
            self._lease = None
            return
        if self._lease is None or self._lease.version != lease.version:
            self._observed_at = self._clock.monotonic()
        self._lease = lease

    def _is_held_by_other(self, now: float) -> bool:
        found, owner = self._lease or Lease(), self.terms.owner
        owners = {each.uid for each in found.metadata.owner_references}
        if owner is not None and owners and owner.uid not in owners:
            return True  # of a previous installation: its deletion must not end our leadership
        others = found.spec.holder_identity not in (None, "", self._identity)
        return others and now - self._observed_at < (found.spec.lease_duration_seconds or self.terms.duration)

    def _body(self, holder: str, duration: float) -> JsonObject:
        now = micro_timestamp(self._clock.now())
        ours = ObjectMeta(owner_references=(self.terms.owner,) if self.terms.owner else ())
        old, seen = (self._lease.spec, self._lease.metadata) if self._lease else (LeaseSpec(), ours)
        same = old.holder_identity == holder
        own = {"ownerReferences": seen.owner_references, "resourceVersion": seen.resource_version}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._key.name, "namespace": self._key.namespace, **own},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": max(1, math.ceil(duration)),
                "acquireTime": old.acquire_time if same and old.acquire_time else now,
                "renewTime": now,
                "leaseTransitions": (old.lease_transitions or 0) + (0 if same or not holder else 1),
            },
        }
