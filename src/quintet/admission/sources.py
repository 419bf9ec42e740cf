"""Sources of the webhook server's certificate.

`SelfSignedCertificates` keeps its certificates in a Secret that all replicas share, or in memory on a
developer's machine. `CertificateFiles` reads those that cert-manager or OLM renews in a mounted folder.
"""

import asyncio
import base64
import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from quintet.admission.certs import CertificateState, RotationPolicy, rotate
from quintet.apis.meta import JsonObject, Object, ObjectKey, OwnerReference, Resource
from quintet.kube.client import Client
from quintet.kube.errors import Conflict, NotFound

SECRETS = Resource("", "v1", "Secret", "secrets")
SECRET_NAME = "quintet-webhook-certs"
_ATTEMPTS = 5

log = logging.getLogger(__name__)


def secret_name(instance: str) -> str:
    """Return the name of the Secret in which all replicas of an instance keep their certificates."""
    return f"{instance}-webhook-certs"


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """The certificate of the webhook server, its key, and the CA bundle for the API server."""

    certificate: bytes
    key: bytes
    bundle: bytes | None = None
    """None where cert-manager or OLM sets the caBundle."""


class CertificateSource(Protocol):
    """Returns the certificate to serve."""

    async def current(self, now: datetime) -> ServingCertificate:
        """Return the certificate to serve from now on."""
        ...


class CertificateStore(Protocol):
    """Keeps the state; a write succeeds only if nobody wrote since the read."""

    async def read(self) -> tuple[dict[str, bytes], str]:
        """Return the stored data and its version; empty data and version if nothing is stored."""
        ...

    async def write(self, data: dict[str, bytes], version: str) -> None:
        """Replace the stored data; raise `Conflict` if the stored version is another."""
        ...


class MemoryStore:
    """Keeps certificates in the memory of one process."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    async def read(self) -> tuple[dict[str, bytes], str]:
        """Return the stored data."""
        return self._data, ""

    async def write(self, data: dict[str, bytes], version: str) -> None:
        """Replace the stored data."""
        self._data = data


class CertificateSecret(Object, frozen=True):
    """A Secret with its base64-encoded data."""

    data: dict[str, str] | None = None


class StaleSecretError(Exception):
    """Raised while the Secret of an earlier installation has not been garbage-collected yet."""


class SecretStore:
    """Keeps certificates in a Secret that all replicas share; keeps labels and keys that others added.

    A new Secret is owned by `owner`, so that it is garbage-collected with it.
    """

    def __init__(self, client: Client, key: ObjectKey, owner: OwnerReference | None = None) -> None:
        self._client = client
        self._key = key
        self._owner = owner
        self._known: frozenset[str] = frozenset()

    async def read(self) -> tuple[dict[str, bytes], str]:
        """Return the data of the Secret and its resourceVersion."""
        try:
            secret = await self._client.get(SECRETS, self._key, CertificateSecret)
        except NotFound:
            return {}, ""
        owners = {each.uid for each in secret.metadata.owner_references}
        if self._owner is not None and owners and self._owner.uid not in owners:
            raise StaleSecretError(
                f"Secret {self._key} is owned by a deleted ServiceAccount; waiting for its garbage collection"
            )
        self._known = frozenset(secret.data or {})
        data = {name: _decode(value) for name, value in (secret.data or {}).items()}
        return data, secret.metadata.resource_version

    async def write(self, data: dict[str, bytes], version: str) -> None:
        """Create or patch the Secret."""
        encoded: JsonObject = {name: base64.b64encode(value).decode() for name, value in data.items()}
        metadata: JsonObject = {"name": self._key.name, "namespace": self._key.namespace}
        if not version:
            if self._owner is not None:
                metadata["ownerReferences"] = [self._owner]
            body: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
            body |= {"type": "kubernetes.io/tls", "data": encoded}
            await self._client.create(SECRETS, body, Object, namespace=self._key.namespace)
            return
        gone = dict.fromkeys({"previous.crt", "previous.key"} & self._known - data.keys())
        body = {"metadata": {"resourceVersion": version}, "data": encoded | gone}
        await self._client.patch(SECRETS, self._key, body, Object)


class SelfSignedCertificates:
    """Creates and rotates self-signed certificates, or uses those that another replica created."""

    def __init__(
        self, store: CertificateStore, hosts: tuple[str, ...], policy: RotationPolicy | None = None
    ) -> None:
        self._store = store
        self._hosts = hosts
        self._policy = policy or RotationPolicy()
        self._last: CertificateState | None = None

    async def current(self, now: datetime) -> ServingCertificate:
        """Return the stored certificate, rotated first if it is due."""
        for _ in range(_ATTEMPTS):
            data, version = await self._store.read()
            kept = CertificateState.from_data(data)
            # If the stored data was deleted, write the certificates in use again: the caBundle stays valid.
            state = rotate(kept or self._last, self._hosts, now, self._policy)
            if state != kept:
                log.info("Renewing certificates", extra={"authorities": len(state.authorities)})
                try:
                    await self._store.write(state.as_data(), version)
                except (Conflict, NotFound):
                    continue  # another replica was faster: use its certificates
            self._last = state
            return ServingCertificate(state.leaf.certificate, state.leaf.key, state.bundle)
        raise TimeoutError(f"other replicas changed the certificates {_ATTEMPTS} times in a row")


class CertificateFiles:
    """Reads `tls.crt` and `tls.key` from a folder in which somebody else renews them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def current(self, now: datetime) -> ServingCertificate:
        """Read the files every time: they are small, and checking for changes would not be cheaper."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> ServingCertificate:
        return ServingCertificate(
            (self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes()
        )


def _decode(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except ValueError:
        return b""  # treated like any other data that is not a certificate
