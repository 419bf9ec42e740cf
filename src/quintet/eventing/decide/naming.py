"""Subjects of events and names of consumers. Pure.

The publisher, the dispatcher and the controller must agree on them, so they are defined only here.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from quintet.apis.meta import ObjectMeta
from quintet.apis.subscription import Subscription, clean_source, clean_type, event_types, subject
from quintet.apis.subscription.wildcards import fits

CONSUMER_LENGTH: Final = 32
RETRY_CONSUMER: Final = "retries"
"""The durable consumer of a retry stream."""
BACKEND: Final = "quintet.dev/backend-uid"
SUBSCRIPTION: Final = "quintet.dev/subscription"
"""Metadata keys of a consumer: the backend and the Subscription that it belongs to."""


def event_subject(prefix: str, event_type_prefix: str, source: str, event_type: str) -> str:
    """Return the subject of events of one type from one source.

    A type that begins with the prefix of the backend already contains its source.
    """
    if event_type_prefix and event_type.startswith(f"{event_type_prefix}."):
        return f"{prefix}.{clean_type(event_type)}"
    return subject(prefix, source, event_type)


def subscription_subjects(subscription: Subscription, prefix: str, event_type_prefix: str) -> dict[str, str]:
    """Return the subjects of a valid Subscription, each with its cleaned type; both may have wildcards."""
    source = clean_source(subscription.spec.source)
    complete = f"{event_type_prefix}."
    return {
        f"{prefix}.{each.clean_type}"
        if event_type_prefix and each.clean_type.startswith(complete)
        else f"{prefix}.{source}.{each.clean_type}": each.clean_type
        for each in event_types(subscription.spec)
    }


def find_type(types: Mapping[str, str], subject: str) -> str | None:
    """Return the type of a subject among those of a Subscription; None if it has another subject."""
    found = types.get(subject)
    if found is not None:
        return found
    return next((each for pattern, each in types.items() if fits(pattern, subject)), None)


def retry_subject(stream: str, consumer: str) -> str:
    """Return the subject of events that wait for a retry, given the consumer of their Subscription."""
    return f"retry.{stream}.{consumer}"


def dead_letter_subject(subject: str, consumer: str) -> str:
    """Return the subject of dead letters, given that of the backend and the consumer of the Subscription."""
    return f"{subject}.{consumer}"


def consumer_name(metadata: ObjectMeta) -> str:
    """Return the name of the durable consumer of a Subscription.

    It depends on the uid: two clusters may share a server, and a Subscription that was deleted and recreated
    must not receive the events of the old one.
    """
    whole = f"{metadata.namespace}/{metadata.name}/{metadata.uid}"
    return hashlib.blake2b(whole.encode(), digest_size=CONSUMER_LENGTH // 2).hexdigest()
