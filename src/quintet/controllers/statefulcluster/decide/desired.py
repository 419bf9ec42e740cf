"""Complete manifests of pods, claims and ControllerRevisions. The same spec gives the same bytes."""

import hashlib
from typing import Any, Final

import msgspec

from quintet.apis.casconfig.embedding import Child, apply_embedded
from quintet.apis.meta import JsonObject, Resource
from quintet.apis.statefulcluster import (
    CLUSTER_LABEL,
    GROUP_LABEL,
    REPLICA_LABEL,
    REVISION_LABEL,
    STATEFULCLUSTERS,
    TEMPLATE_LABEL,
    Draw,
    Retention,
    StatefulCluster,
)

PODS: Final = Resource("", "v1", "Pod", "pods")
CLAIMS: Final = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
REVISIONS: Final = Resource("apps", "v1", "ControllerRevision", "controllerrevisions")

# No vowels, so that no suffix spells a word, and no characters that look alike.
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def pod(cluster: StatefulCluster, draw: Draw, revision: str, template: JsonObject) -> JsonObject:
    """Return the pod of a replica: the template plus name, labels, owner reference and claim volumes."""
    metadata, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    labels = {**(metadata.get("labels") or {}), **_labels(cluster), REPLICA_LABEL: draw.replica}
    labels[REVISION_LABEL] = revision
    if draw.group:
        labels[GROUP_LABEL] = draw.group
    spec["hostname"] = draw.replica
    if cluster.spec.service_name:
        spec["subdomain"] = cluster.spec.service_name
    if volumes := _volumes(cluster, draw.group, spec.get("volumes") or []):
        spec["volumes"] = volumes
    pod_metadata: JsonObject = {
        "name": draw.replica,
        "namespace": cluster.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner(cluster)],
    }
    for name in ("annotations", "finalizers"):
        if metadata.get(name):
            pod_metadata[name] = metadata[name]
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": pod_metadata, "spec": spec}


def claim(cluster: StatefulCluster, template: JsonObject, group: str) -> JsonObject:
    """Return one claim of a group."""
    given = template.get("metadata") or {}
    name = given["name"]
    metadata: JsonObject = {
        "name": claim_name(cluster, name, group),
        "namespace": cluster.metadata.namespace,
        "labels": {
            **(given.get("labels") or {}),
            **cluster.spec.selector.match_labels,
            **_labels(cluster),
            GROUP_LABEL: group,
            TEMPLATE_LABEL: name,
        },
    }
    if given.get("annotations"):
        metadata["annotations"] = given["annotations"]
    if goes_with_cluster(cluster):
        metadata["ownerReferences"] = [owner(cluster, controls=False)]
    body: JsonObject = {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }
    return apply_embedded(cluster.spec.cluster.cas_config, Child(CLAIMS, body))


def revision(cluster: StatefulCluster, name: str, number: int) -> JsonObject:
    """Return the ControllerRevision that stores the pod template."""
    return {
        "apiVersion": REVISIONS.api_version,
        "kind": REVISIONS.kind,
        "metadata": {
            "name": name,
            "namespace": cluster.metadata.namespace,
            "labels": {**cluster.spec.selector.match_labels, **_labels(cluster)},
            "ownerReferences": [owner(cluster)],
        },
        "revision": number,
        "data": revision_data(cluster),
    }


def escape(data: JsonObject) -> msgspec.Raw:
    """Return the data of a revision as JSON with the escapes that the API server adds.

    It compares the data of a revision byte by byte, and escapes it before: a later patch of anything else
    would count as a change of the data.
    """
    text = msgspec.json.encode(data)
    for character in ("<", ">", "&", "\u2028", "\u2029"):
        text = text.replace(character.encode(), f"\\u{ord(character):04x}".encode())
    return msgspec.Raw(text)


def revision_data(cluster: StatefulCluster) -> JsonObject:
    """Return the part of the spec that identifies a revision."""
    return {"spec": {"template": template(cluster)}}


def template(cluster: StatefulCluster) -> JsonObject:
    """Return the pod template, with the changes of the embedded CASConfig applied."""
    given, config = cluster.spec.template, cluster.spec.cluster.cas_config
    if config is None:
        return given
    place = {"name": cluster.metadata.name, "namespace": cluster.metadata.namespace}
    pod: JsonObject = {
        "kind": PODS.kind,
        "metadata": {**(given.get("metadata") or {}), **place},
        "spec": given.get("spec") or {},
    }
    made = apply_embedded(config, Child(PODS, pod, ("spec",)))
    metadata = {key: value for key, value in made["metadata"].items() if key not in place}
    return {**given, "metadata": metadata, "spec": made["spec"]}


def owner(cluster: StatefulCluster, *, controls: bool = True) -> JsonObject:
    """Return the owner reference to the cluster. It is not the controller of claims."""
    return {
        "apiVersion": STATEFULCLUSTERS.api_version,
        "kind": STATEFULCLUSTERS.kind,
        "name": cluster.metadata.name,
        "uid": cluster.metadata.uid,
        "controller": controls,
        "blockOwnerDeletion": controls,
    }


def goes_with_cluster(cluster: StatefulCluster) -> bool:
    """Return whether claims are deleted together with their cluster."""
    policy = cluster.spec.persistent_volume_claim_retention_policy
    return policy.when_deleted is Retention.DELETE


def template_names(cluster: StatefulCluster) -> tuple[str, ...]:
    """Return the names of the claim templates."""
    return tuple(_name(template) for template in cluster.spec.volume_claim_templates)


def wanted_sizes(cluster: StatefulCluster) -> dict[str, str]:
    """Return the storage request of each claim template."""
    return {_name(template): _storage_request(template) for template in cluster.spec.volume_claim_templates}


def claim_name(cluster: StatefulCluster, template: str, group: str) -> str:
    """Return the name of the claim that a group has for a template."""
    return f"{template}-{cluster.metadata.name}-{group}"


def digest(value: Any) -> str:
    """Return a short hash of a JSON value."""
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=10).hexdigest()


def _labels(cluster: StatefulCluster) -> dict[str, str]:
    return {CLUSTER_LABEL: cluster.metadata.name}


def _name(template: JsonObject) -> str:
    return str((template.get("metadata") or {}).get("name", ""))


def _storage_request(template: JsonObject) -> str:
    resources = (template.get("spec") or {}).get("resources") or {}
    return str((resources.get("requests") or {}).get("storage", ""))


def _volumes(cluster: StatefulCluster, group: str, given: list[JsonObject]) -> list[JsonObject]:
    """Return the claim volumes and those volumes of the template that no claim replaces."""
    names = template_names(cluster)
    claimed = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim_name(cluster, name, group)}}
        for name in names
    ]
    return [volume for volume in given if volume.get("name") not in names] + claimed
