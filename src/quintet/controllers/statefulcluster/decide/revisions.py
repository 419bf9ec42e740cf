"""Revisions of the pod template: which is current, and which are beyond the history limit."""

from collections.abc import Iterable

from quintet.apis.statefulcluster import StatefulCluster
from quintet.controllers.statefulcluster.decide.desired import ALPHABET, digest, revision_data
from quintet.controllers.statefulcluster.decide.observed import Pod, Revision

_LENGTH = 10


def find(cluster: StatefulCluster, known: Iterable[Revision]) -> Revision | None:
    """Return the newest revision that equals the spec's template, if there is one."""
    current_digest = digest(revision_data(cluster))
    same = [revision for revision in known if revision.digest == current_digest]
    return max(same, key=lambda revision: revision.number, default=None)


def name_for(cluster: StatefulCluster, collisions: int) -> str:
    """Return the revision name for the spec; every collision gives another name."""
    number = int(digest([revision_data(cluster), collisions]), 16)
    letters = []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return f"{cluster.metadata.name}-{''.join(letters)}"


def next_number(known: Iterable[Revision]) -> int:
    """Return one more than the highest revision number."""
    return max((revision.number for revision in known), default=0) + 1


def current(cluster: StatefulCluster, known: Iterable[Revision], update: str) -> str:
    """Return the revision that an update started from; the update revision if that one is gone."""
    recorded = cluster.status.current_revision
    return recorded if any(revision.name == recorded for revision in known) else update


def to_forget(
    known: Iterable[Revision], pods: Iterable[Pod], kept: tuple[str, ...], limit: int
) -> list[Revision]:
    """Return the unused revisions beyond the history limit, oldest first; a negative limit keeps all."""
    if limit < 0:
        return []
    used = {*kept, *(pod.revision for pod in pods)}
    unused = sorted(
        (revision for revision in known if revision.name not in used), key=lambda each: each.number
    )
    return unused[: max(0, len(unused) - limit)]
