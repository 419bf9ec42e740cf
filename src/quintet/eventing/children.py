"""What the objects of a backend are called, and where its own server is found. Pure."""

import hashlib
import re
from typing import Final

from quintet.apis.eventingbackend import Effective
from quintet.apis.eventingbackend.addresses import endpoint
from quintet.apis.meta import ObjectKey

PUBLISHER: Final = "publisher-proxy"
DISPATCHER: Final = "dispatcher"
SERVER: Final = "nats"
NATS_PORT: Final = 4222
# A StatefulSet adds a hash to its name and makes a label of both.
_LONGEST: Final = 52
_PLAIN: Final = re.compile("[a-z][a-z0-9-]*")


def child_name(backend: str, part: str) -> str:
    """The name of a child. A name that no Service or label may have is shortened and made distinct."""
    name = f"{backend}-{part}"
    if len(name) <= _LONGEST and _PLAIN.fullmatch(backend):
        return name
    mark = hashlib.blake2b(backend.encode(), digest_size=4).hexdigest()
    start = re.sub("[^a-z0-9-]", "-", f"evb-{backend}")[: _LONGEST - len(part) - len(mark) - 2]
    return f"{start.rstrip('-')}-{mark}-{part}"


def runs_server(config: Effective) -> bool:
    """Whether the backend wants a server of its own."""
    return config.backend.key("url") is not None and not config.text("url")


def own_server_url(backend: ObjectKey) -> str:
    """Where the server is that is run for a backend."""
    return f"nats://{child_name(backend.name, SERVER)}.{backend.namespace}.svc:{NATS_PORT}"


def server_url(backend: ObjectKey, config: Effective) -> str:
    """Where the NATS server of a backend is, for every pod of the cluster.

    A name of one word means a Service in the namespace of the backend, wherever it is resolved.
    """
    if runs_server(config):
        return own_server_url(backend)
    found = endpoint(config.text("url"))
    host = found.host
    if "." not in host and ":" not in host:
        host = f"{host}.{backend.namespace}.svc"
    return f"{found.scheme}://{f'[{host}]' if ':' in host else host}:{found.port}"
