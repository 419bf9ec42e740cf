"""Where the certificate of the webhook server comes from, asked again every few seconds by `webhooks`.

`SelfMade` keeps what `certs` makes in a store that all replicas share (a Secret), or in memory
for a process on a developer's machine. `Files` reads what somebody else renews: cert-manager's
mounted Secret, or the folder that OLM fills.
"""

import asyncio
import base64
import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from quintet.admission.certs import Policy, State, advanced
from quintet.apis.meta import JsonObject, Object, ObjectKey, OwnerReference, Resource
from quintet.kube.client import Client
from quintet.kube.errors import Conflict, NotFound

SECRETS = Resource("", "v1", "Secret", "secrets")
SECRET_NAME = "quintet-webhook-certs"
_ATTEMPTS = 5

log = logging.getLogger(__name__)


def secret_name(instance: str) -> str:
    """Where the processes of one name keep their certificates."""
    return f"{instance}-webhook-certs"


@dataclass(frozen=True, slots=True)
class Serving:
    """What the server shows, and whom the API server has to trust for it."""

    certificate: bytes
    key: bytes
    bundle: bytes | None = None
    """None where somebody else tells the API server."""


class CertificateSource(Protocol):
    """Asked for the present certificate."""

    async def current(self, now: datetime) -> Serving:
        """The certificate to serve from now on."""
        ...


class Store(Protocol):
    """Keeps the state; a write succeeds only if nobody wrote since the read."""

    async def read(self) -> tuple[dict[str, bytes], str]:
        """What is kept, and its version; nothing and an empty version if there is nothing."""
        ...

    async def write(self, data: dict[str, bytes], version: str) -> None:
        """Keep this instead; `Conflict` if the version is another by now."""
        ...


class MemoryStore:
    """For one process."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    async def read(self) -> tuple[dict[str, bytes], str]:
        """What is kept."""
        return self._data, ""

    async def write(self, data: dict[str, bytes], version: str) -> None:
        """Keep this instead."""
        self._data = data


class Secret(Object, frozen=True):
    """A Secret as the API server keeps it."""

    data: dict[str, str] | None = None


class LeftBehind(Exception):
    """What is there belongs to an installation before ours, and is about to be removed with it."""


class SecretStore:
    """For all replicas. Labels and keys that others put on the Secret stay.

    A Secret that is made here belongs to `owner` and goes with it.
    """

    def __init__(self, client: Client, key: ObjectKey, owner: OwnerReference | None = None) -> None:
        self._client = client
        self._key = key
        self._owner = owner
        self._known: frozenset[str] = frozenset()

    async def read(self) -> tuple[dict[str, bytes], str]:
        """What the Secret holds."""
        try:
            secret = await self._client.get(SECRETS, self._key, Secret)
        except NotFound:
            return {}, ""
        owners = {each.uid for each in secret.metadata.owner_references}
        if self._owner is not None and owners and self._owner.uid not in owners:
            raise LeftBehind(
                f"Secret {self._key} belongs to an account that is gone; waiting for its removal"
            )
        self._known = frozenset(secret.data or {})
        data = {name: _decoded(value) for name, value in (secret.data or {}).items()}
        return data, secret.metadata.resource_version

    async def write(self, data: dict[str, bytes], version: str) -> None:
        """Create or change the Secret."""
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


class SelfMade:
    """Makes certificates when they are due, or takes those that another replica made."""

    def __init__(self, store: Store, hosts: tuple[str, ...], policy: Policy | None = None) -> None:
        self._store = store
        self._hosts = hosts
        self._policy = policy or Policy()
        self._last: State | None = None

    async def current(self, now: datetime) -> Serving:
        """The certificate of the shared state, after it was brought up to date."""
        for _ in range(_ATTEMPTS):
            data, version = await self._store.read()
            kept = State.from_data(data)
            # A store that was emptied gets back what is in use: nobody has to trust anything new.
            state = advanced(kept or self._last, self._hosts, now, self._policy)
            if state != kept:
                log.info("Renewing certificates", extra={"authorities": len(state.authorities)})
                try:
                    await self._store.write(state.as_data(), version)
                except (Conflict, NotFound):
                    continue  # another replica was faster: use what it made
            self._last = state
            return Serving(state.leaf.certificate, state.leaf.key, state.bundle)
        raise TimeoutError(f"the certificates were changed by others {_ATTEMPTS} times in a row")


class Files:
    """`tls.crt` and `tls.key` in a folder, renewed by somebody else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def current(self, now: datetime) -> Serving:
        """What the files hold; they are small, so reading them is as cheap as asking whether they changed."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Serving:
        return Serving((self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes())


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except ValueError:
        return b""  # as useless as any other text that is no certificate
