"""Reads Secrets on demand; nothing is cached.

Administrators grant the permission per namespace; the failed result says how.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from quintet.kube.client import Client
from quintet.kube.errors import Forbidden, NotFound

SECRETS = Resource("", "v1", "Secret", "secrets")
ROLE: Final = "quintet-eventing-secrets"


class _SecretView(Object, frozen=True):
    data: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SecretData:
    """Content and version of a Secret."""

    version: str
    data: Mapping[str, bytes] = field(repr=False)


class SecretReader:
    """Reads Secrets for drivers."""

    def __init__(self, client: Client, account: str) -> None:
        self._client = client
        self._account = account

    async def read(self, key: ObjectKey) -> SecretData | ProbeResult:
        """Return the Secret, or a failed result."""
        try:
            found = await self._client.get(SECRETS, key, _SecretView)
            data = {name: base64.b64decode(value) for name, value in (found.data or {}).items()}
        except NotFound:
            text = f"Secret {key.name} does not exist in namespace {key.namespace}: create it"
            return ProbeResult(Reason.SECRET_MISSING, text)
        except Forbidden:
            return ProbeResult(Reason.SECRET_FORBIDDEN, self._how_to_allow(key))
        except binascii.Error:
            return ProbeResult(Reason.SECRET_MALFORMED, f"Secret {key.name} cannot be read")
        return SecretData(f"{found.metadata.uid}/{found.metadata.resource_version}", data)

    def _how_to_allow(self, key: ObjectKey) -> str:
        return (
            f"the operator has no permission to read Secret {key.name} in namespace {key.namespace}; "
            f"to allow it: kubectl create rolebinding {ROLE} --clusterrole={ROLE} "
            f"--serviceaccount={self._account} -n {key.namespace}"
        )
