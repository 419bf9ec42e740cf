"""A connection to a cluster with the permissions of the user, and the namespace to look at."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quintet.kube.impersonation import ImpersonatedUser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from quintet.apis.meta import ObjectKey, Resource
    from quintet.kube.client import Client
    from quintet.kube.config import ClusterConfig


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster and namespace that a user chose; None means the default of the kubeconfig."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    user: ImpersonatedUser = field(default_factory=ImpersonatedUser)

    def load(self) -> ClusterConfig:
        """Return the configuration of the connection."""
        from quintet.kube.config import load

        return load(self.kubeconfig, self.context).impersonate(self.user)


@dataclass(frozen=True, slots=True)
class Session:
    """A connected client and a namespace."""

    client: Client
    namespace: str
    """The chosen namespace, or that of the context."""
    all_namespaces: bool = False

    @property
    def list_namespace(self) -> str:
        """The namespace of list requests; empty for all namespaces."""
        return "" if self.all_namespaces else self.namespace

    @property
    def scope(self) -> str:
        """The searched namespaces, for messages."""
        return "any namespace" if self.all_namespaces else f"namespace {self.namespace}"

    def key(self, resource: Resource, name: str) -> ObjectKey:
        """Return the key of an object with this name."""
        from quintet.apis.meta import ObjectKey

        return ObjectKey(self.namespace if resource.namespaced else "", name)


@contextlib.asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Session]:
    """Connect to a cluster as the user of the kubeconfig, or as the one to impersonate."""
    from quintet.kube.client import Client
    from quintet.kube.transport import Transport

    found = target.load()
    async with Transport(found) as transport:
        yield Session(Client(transport), target.namespace or found.namespace, target.all_namespaces)
