"""Names of the objects that a backend owns, and the URL of its NATS server. Pure."""

import hashlib
import re
from typing import Final

from quintet.apis.eventingbackend import Effective
from quintet.apis.eventingbackend.addresses import parse_endpoint
from quintet.apis.meta import ObjectKey

PUBLISHER: Final = "publisher-proxy"
DISPATCHER: Final = "dispatcher"
SERVER: Final = "nats"
NATS_PORT: Final = 4222
# A StatefulSet appends a hash to its name and uses both as a label value.
_MAX_LENGTH: Final = 52
_PLAIN: Final = re.compile("[a-z][a-z0-9-]*")


def child_name(backend: str, part: str) -> str:
    """Return the name of an owned object; shortened and hashed if it is not valid for Services and labels."""
    name = f"{backend}-{part}"
    if len(name) <= _MAX_LENGTH and _PLAIN.fullmatch(backend):
        return name
    digest = hashlib.blake2b(backend.encode(), digest_size=4).hexdigest()
    start = re.sub("[^a-z0-9-]", "-", f"evb-{backend}")[: _MAX_LENGTH - len(part) - len(digest) - 2]
    return f"{start.rstrip('-')}-{digest}-{part}"


def runs_server(config: Effective) -> bool:
    """Return whether the backend runs its own NATS server."""
    return config.backend.key("url") is not None and not config.text("url")


def own_server_url(backend: ObjectKey) -> str:
    """Return the URL of the NATS server that a backend runs."""
    return f"nats://{child_name(backend.name, SERVER)}.{backend.namespace}.svc:{NATS_PORT}"


def server_url(backend: ObjectKey, config: Effective) -> str:
    """Return the URL of the NATS server of a backend, valid in all namespaces.

    A host name without a dot is a Service in the namespace of the backend.
    """
    if runs_server(config):
        return own_server_url(backend)
    found = parse_endpoint(config.text("url"))
    host = found.host
    if "." not in host and ":" not in host:
        host = f"{host}.{backend.namespace}.svc"
    return f"{found.scheme}://{f'[{host}]' if ':' in host else host}:{found.port}"
