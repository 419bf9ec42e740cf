"""Requests to replay or drop dead letters of a Subscription, and waits for their end."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from quintet.actions.annotate import annotate
from quintet.actions.wait import wait_for
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.apis.subscription.dead_letters import (
    REQUEST,
    DeadLetterAction,
    DeadLetterRequest,
    RequestStatus,
    encode_request,
)

if TYPE_CHECKING:
    from datetime import datetime

    from quintet.apis.meta import ObjectKey
    from quintet.kube.client import Client


def new_request(
    action: DeadLetterAction,
    *,
    sequences: tuple[int, ...],
    ids: tuple[str, ...],
    result: str,
    after: datetime | None,
    before: datetime | None,
) -> DeadLetterRequest:
    """Return a request for the dead letters that fit all given values."""
    return DeadLetterRequest(secrets.token_hex(8), action, sequences, ids, result, after, before)


async def handle_dead_letters(
    client: Client, key: ObjectKey, request: DeadLetterRequest, *, timeout: float, dry_run: bool
) -> RequestStatus | None:
    """Send a request and wait until the controller has completed it; None for a dry run."""
    await annotate(client, SUBSCRIPTIONS, key, {REQUEST: encode_request(request)}, dry_run=dry_run)
    if dry_run:
        return None

    def find_result(subscription: Subscription) -> RequestStatus | None:
        status = subscription.status.dead_letters.request
        return status if status.id == request.id and status.complete else None

    return await wait_for(client, SUBSCRIPTIONS, key, Subscription, find_result, timeout)
