"""Which ServiceAccount this process is, so that what it makes for itself can belong to it.

Asked once at the start, by `cli`. A Lease and a Secret of certificates that belong to the account go with it,
in every way to uninstall, and nobody needs a right to delete them.
"""

import logging
from typing import Final

from quintet.apis.meta import OwnerReference, Resource, Struct
from quintet.kube.client import Client
from quintet.kube.errors import PASSING, KubeError

# Whoever is logged in may ask this (the role system:basic-user).
REVIEWS: Final = Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False)
_PREFIX: Final = "system:serviceaccount"

log = logging.getLogger(__name__)


class _User(Struct, frozen=True):
    username: str = ""
    uid: str = ""


class _Status(Struct, frozen=True):
    user_info: _User = _User()


class _Review(Struct, frozen=True):
    status: _Status = _Status()


async def own_account(client: Client, namespace: str) -> OwnerReference | None:
    """A reference to our account; None if we are none, or one of another namespace, or may not know."""
    question = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind}
    try:
        user = (await client.create(REVIEWS, question, _Review)).status.user_info
    except PASSING:
        raise  # a moment later the server would have told us
    except KubeError as error:
        log.info("Own account not known", extra={"error": str(error)})
        return None
    prefix, _, rest = user.username.rpartition(f"{_PREFIX}:")
    home, _, name = rest.partition(":")
    # An owner in another namespace counts as gone, and takes everything along.
    if prefix or home != namespace or not (name and user.uid):
        return None
    return OwnerReference("v1", "ServiceAccount", name, user.uid)
