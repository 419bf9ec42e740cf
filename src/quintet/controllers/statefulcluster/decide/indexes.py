"""Cache indexes that find the pods of a cluster without scanning its namespace."""

from collections.abc import Iterable

from quintet.apis.meta import ObjectKey
from quintet.apis.statefulcluster import StatefulCluster
from quintet.controllers.statefulcluster.decide.observed import Pod

OWNER, UNOWNED, NAMESPACE = "owner", "loose", "namespace"


def owner_index_keys(pod: Pod) -> Iterable[str]:
    """Index a pod by the uid of the StatefulCluster that controls it."""
    return (pod.owner_uid,) if pod.owner_name else ()


def unowned_index_keys(pod: Pod) -> Iterable[str]:
    """Index a pod by its claims, and by its labels if no StatefulCluster controls it."""
    namespace = pod.key.namespace
    yield from (mount_index_key(ObjectKey(namespace, name)) for name in pod.claims)
    if pod.owner_name:
        return
    yield namespace
    yield from (f"{namespace}/{key}={value}" for key, value in pod.labels.items())


def mount_index_key(claim: ObjectKey) -> str:
    """Return the index key of the pods that mount a claim."""
    return f"{claim} mounted"


def selector_index_key(cluster: StatefulCluster) -> str:
    """Return the index key of the pods that a cluster's selector can match."""
    namespace = cluster.metadata.namespace
    for key, value in cluster.spec.selector.match_labels.items():
        return f"{namespace}/{key}={value}"
    return namespace
