"""`quintet.kube.Client` on the cluster under test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from quintet.apis.meta import JsonObject, Object, Resource, Struct
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.config import ClusterConfig
from quintet.kube.transport import Transport

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
SELF_REVIEWS = Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False)


class ConfigMap(Object, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class _User(Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class _Review(Struct, frozen=True):
    user_info: _User


class _SelfReview(Struct, frozen=True):
    status: _Review


@asynccontextmanager
async def connect(source: ClusterConfig | Path | str, **options: Any) -> AsyncIterator[Client]:
    """Connect a client with a configuration or a kubeconfig; `options` are those of `Transport`."""
    found = source if isinstance(source, ClusterConfig) else config.load(str(source))
    async with Transport(found, **options) as transport:
        yield Client(transport)


def a_config_map(name: str, **data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def whoami(client: Client) -> _User:
    """Return the user that the API server sees."""
    body = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
    return (await client.create(SELF_REVIEWS, body, _SelfReview)).status.user_info
