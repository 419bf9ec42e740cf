"""A server with one Lease for tests of leader election in simulated time."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from quintet.apis.meta import ObjectKey, ObjectMeta
from quintet.kube.errors import AlreadyExists, Conflict, NotFound, Status
from quintet.runtime.leader import Lease, LeaseSpec

KEY = ObjectKey("system", "quintet")


@dataclass
class LeaseServer:
    """Rejects writes with an old version."""

    lease: Lease | None = None
    versions: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def read(self) -> Lease:
        if self.lease is None:
            raise NotFound("GET", Status(code=404))
        return self.lease

    def write(self, body: dict[str, Any], *, create: bool) -> Lease:
        known = body["metadata"]["resourceVersion"]
        if create and self.lease is not None:
            raise AlreadyExists("POST", Status(code=409))
        if not create and self.lease is None:
            raise NotFound("PUT", Status(code=404))
        if self.lease is not None and self.lease.metadata.resource_version != known:
            raise Conflict("PUT", Status(code=409))
        meta = ObjectMeta(name=KEY.name, namespace=KEY.namespace, resource_version=str(next(self.versions)))
        self.lease = Lease(meta, msgspec.convert(body["spec"], LeaseSpec))
        return self.lease
