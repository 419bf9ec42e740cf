"""The rights that the StatefulCluster controller needs, with reasons, and what it demands of users."""

from quintet.apis.meta import Resource
from quintet.apis.statefulcluster import STATEFULCLUSTERS
from quintet.controllers.rights import Demand, Right

RIGHTS = (
    Right("enge.me", ("statefulclusters",), ("list", "watch"), "to see what is asked for"),
    Right("enge.me", ("statefulclusters/status",), ("patch",), "to say what became of it"),
    Right("enge.me", ("statefulclusters/finalizers",), ("update",), "to own pods that block its deletion"),
    Right("", ("pods",), ("get", "list", "watch", "create", "patch", "delete"), "the replicas"),
    Right("", ("pods/eviction",), ("create",), "to remove replicas as disruption budgets allow"),
    Right(
        "",
        ("persistentvolumeclaims",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "the claims of the replicas",
    ),
    Right(
        "apps",
        ("controllerrevisions",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "the history of templates",
    ),
    Right("policy", ("poddisruptionbudgets",), ("list",), "to name the budget that holds up a removal"),
    Right("", ("persistentvolumes",), ("get",), "to see whether a volume can still be reached"),
    Right("storage.k8s.io", ("storageclasses",), ("get",), "to see whether a claim waits for its pod"),
    Right("", ("nodes",), ("list",), "to see whether a node that holds a volume is still there"),
    Right("events.k8s.io", ("events",), ("create", "patch"), "to tell users what happened"),
)

# A StatefulCluster decides what runs in pods and which volumes are made: nobody may gain that through it.
DEMANDS = (
    Demand(
        "statefulcluster-pods.quintet.dev",
        STATEFULCLUSTERS,
        ("template", "cluster"),
        "create",
        Resource("", "v1", "Pod", "pods"),
        "spec.template and spec.cluster decide what runs in pods: you need the right to create pods here",
    ),
    Demand(
        "statefulcluster-claims.quintet.dev",
        STATEFULCLUSTERS,
        ("volumeClaimTemplates",),
        "create",
        Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        "spec.volumeClaimTemplates makes claims: you need the right to create persistentvolumeclaims here",
    ),
    Demand(
        "statefulcluster-data.quintet.dev",
        STATEFULCLUSTERS,
        ("persistentVolumeClaimRetentionPolicy",),
        "delete",
        Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        "spec.persistentVolumeClaimRetentionPolicy deletes claims: you need the right to delete "
        "persistentvolumeclaims here",
        when=" || ".join(
            f"object.spec.?persistentVolumeClaimRetentionPolicy.{field}.orValue('') == 'Delete'"
            for field in ("whenDeleted", "whenScaled")
        ),
    ),
)
