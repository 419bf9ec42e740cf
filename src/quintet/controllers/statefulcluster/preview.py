"""Preview of the children of a StatefulCluster."""

import msgspec

from quintet.apis.meta import JsonObject
from quintet.apis.statefulcluster import Draw, StatefulCluster
from quintet.controllers.preview import Images, Preview, with_uid
from quintet.controllers.statefulcluster.decide import desired, revisions


def preview(obj: JsonObject, images: Images) -> Preview:
    """Return the revision, and the claims and the pod of each replica."""
    cluster = msgspec.convert(with_uid(obj), StatefulCluster)
    revision, template = revisions.name_for(cluster, 0), desired.template(cluster)
    children = [desired.revision(cluster, revision, 1)]
    claims = cluster.spec.volume_claim_templates
    for number in range(1, cluster.spec.replicas + 1):
        suffix = f"<{number}>"
        draw = Draw(f"{cluster.metadata.name}-{suffix}", suffix if claims else "")
        children += [desired.claim(cluster, each, suffix) for each in claims]
        children.append(desired.pod(cluster, draw, revision, template))
    notes = (
        "This is the first rollout: the part in angle brackets is chosen when a replica is created.",
        "Existing claims of earlier replicas may be used instead of new ones.",
    )
    return Preview(tuple(children), notes if cluster.spec.replicas else ())
