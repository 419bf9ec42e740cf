"""Permissions of the StatefulCluster controller, and what users need to write StatefulClusters."""

from quintet.apis.meta import Resource
from quintet.apis.statefulcluster import STATEFULCLUSTERS
from quintet.controllers.permissions import Permission, UserRequirement

PERMISSIONS = (
    Permission("enge.me", ("statefulclusters",), ("list", "watch"), "to read the desired state"),
    Permission("enge.me", ("statefulclusters/status",), ("patch",), "to report the status"),
    Permission(
        "enge.me", ("statefulclusters/finalizers",), ("update",), "to own pods that block its deletion"
    ),
    Permission("", ("pods",), ("get", "list", "watch", "create", "patch", "delete"), "the replicas"),
    Permission("", ("pods/eviction",), ("create",), "to remove replicas within their disruption budgets"),
    Permission(
        "",
        ("persistentvolumeclaims",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "the claims of the replicas",
    ),
    Permission(
        "apps",
        ("controllerrevisions",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "the history of templates",
    ),
    Permission("policy", ("poddisruptionbudgets",), ("list",), "to name the budget that blocks an eviction"),
    Permission(
        "", ("persistentvolumes",), ("get",), "to see whether a volume can still be reached", everywhere=True
    ),
    Permission(
        "storage.k8s.io",
        ("storageclasses",),
        ("get",),
        "to see whether a claim waits for its pod",
        everywhere=True,
    ),
    Permission(
        "", ("nodes",), ("list",), "to see whether the node of a volume still exists", everywhere=True
    ),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to record Events for users"),
)

# A StatefulCluster decides what runs in pods and which volumes exist: it must not give users more
# permissions.
USER_REQUIREMENTS = (
    UserRequirement(
        "statefulcluster-pods.quintet.dev",
        STATEFULCLUSTERS,
        ("template", "cluster"),
        "create",
        Resource("", "v1", "Pod", "pods"),
        "spec.template and spec.cluster decide what runs in pods: you need permission to create pods here",
    ),
    UserRequirement(
        "statefulcluster-claims.quintet.dev",
        STATEFULCLUSTERS,
        ("volumeClaimTemplates",),
        "create",
        Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        "spec.volumeClaimTemplates makes claims: you need permission to create persistentvolumeclaims here",
    ),
    UserRequirement(
        "statefulcluster-data.quintet.dev",
        STATEFULCLUSTERS,
        ("persistentVolumeClaimRetentionPolicy",),
        "delete",
        Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        "spec.persistentVolumeClaimRetentionPolicy deletes claims: you need permission to delete "
        "persistentvolumeclaims here",
        when=" || ".join(
            f"object.spec.?persistentVolumeClaimRetentionPolicy.{field}.orValue('') == 'Delete'"
            for field in ("whenDeleted", "whenScaled")
        ),
    ),
)
