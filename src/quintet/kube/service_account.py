"""The ServiceAccount of this process, as owner of the objects that the process creates for itself.

The Lease and the certificate Secret are garbage-collected with the ServiceAccount, however Quintet is
uninstalled, and nobody needs permission to delete them.
"""

import logging
from typing import Final

from quintet.apis.meta import OwnerReference, Resource, Struct
from quintet.kube.client import Client
from quintet.kube.errors import TRANSIENT, KubeError

# Every authenticated user may create one (ClusterRole system:basic-user).
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


async def own_service_account(client: Client, namespace: str) -> OwnerReference | None:
    """Return an owner reference to our ServiceAccount.

    None if we are not a ServiceAccount, or one of another namespace, or have no permission to find out.
    """
    review = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind}
    try:
        user = (await client.create(REVIEWS, review, _Review)).status.user_info
    except TRANSIENT:
        raise  # a retry can find out
    except KubeError as error:
        log.info("Own ServiceAccount unknown", extra={"error": str(error)})
        return None
    prefix, _, rest = user.username.rpartition(f"{_PREFIX}:")
    home, _, name = rest.partition(":")
    # The garbage collector treats an owner in another namespace as deleted, and deletes its dependents.
    if prefix or home != namespace or not (name and user.uid):
        return None
    return OwnerReference("v1", "ServiceAccount", name, user.uid)
