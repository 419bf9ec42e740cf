"""How pods, claims and revisions are filed in the caches, so that a look need not go through all. Pure."""

from collections.abc import Iterable

from quintet.apis.meta import ObjectKey
from quintet.apis.statefulcluster import StatefulCluster
from quintet.controllers.statefulcluster.decide.observed import Pod

# Names of indexes.
OWNER, UNOWNED, NAMESPACE = "owner", "loose", "namespace"


def owner_index_keys(pod: Pod) -> Iterable[str]:
    """Pods that a StatefulCluster controls, by its uid."""
    return (pod.owner_uid,) if pod.owner_name else ()


def unowned_index_keys(pod: Pod) -> Iterable[str]:
    """Pods by the claims they mount; those that no StatefulCluster controls by what selectors ask for too."""
    namespace = pod.key.namespace
    yield from (mount_index_key(ObjectKey(namespace, name)) for name in pod.claims)
    if pod.owner_name:
        return
    yield namespace
    yield from (f"{namespace}/{key}={value}" for key, value in pod.labels.items())


def mount_index_key(claim: ObjectKey) -> str:
    """Where the pods are filed that mount a claim."""
    return f"{claim} mounted"


def selector_index_key(cluster: StatefulCluster) -> str:
    """Where those pods are filed that a cluster may select."""
    namespace = cluster.metadata.namespace
    for key, value in cluster.spec.selector.match_labels.items():
        return f"{namespace}/{key}={value}"
    return namespace
