"""Where events of a Subscription are found, and what its consumer is called.

Pure. The publisher asks `event_subject` where an event goes, the controller and the dispatcher ask
where it is looked for: an event arrives only because all three ask here.
"""

import hashlib
from typing import Final

from quintet.apis.meta import ObjectMeta
from quintet.apis.subscription import Subscription, clean_type, event_types, subject

CONSUMER_LENGTH: Final = 32
BACKEND: Final = "quintet.dev/backend-uid"
SUBSCRIPTION: Final = "quintet.dev/subscription"
"""Under these a consumer says in its metadata whose it is."""


def event_subject(prefix: str, event_type_prefix: str, source: str, event_type: str) -> str:
    """The subject of events of one type from one source.

    A type that begins with the prefix of the backend is complete: it says itself where it comes from.
    """
    if event_type_prefix and event_type.startswith(f"{event_type_prefix}."):
        return f"{prefix}.{clean_type(event_type)}"
    return subject(prefix, source, event_type)


def subjects_of(subscription: Subscription, prefix: str, event_type_prefix: str) -> dict[str, str]:
    """What a valid Subscription listens to: each subject with the type that it stands for."""
    source = subscription.spec.source
    return {
        event_subject(prefix, event_type_prefix, source, found.clean_type): found.clean_type
        for found in event_types(subscription.spec)
    }


def consumer_name(metadata: ObjectMeta) -> str:
    """The durable consumer of a Subscription.

    The uid is part of it: two clusters may share a server, and one that is made anew under an old
    name must not inherit what was meant for the old one.
    """
    whole = f"{metadata.namespace}/{metadata.name}/{metadata.uid}"
    return hashlib.blake2b(whole.encode(), digest_size=CONSUMER_LENGTH // 2).hexdigest()
