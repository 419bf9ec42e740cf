"""Revisions of the template: which is wanted, which may be forgotten. Pure."""

from collections.abc import Iterable

from quintet.apis.statefulcluster import StatefulCluster
from quintet.controllers.statefulcluster.decide.desired import ALPHABET, digest, revision_data
from quintet.controllers.statefulcluster.decide.observed import Pod, Revision

_LENGTH = 10


def find(cluster: StatefulCluster, known: Iterable[Revision]) -> Revision | None:
    """The revision that says what the spec says; the newest, if there are several."""
    wanted = digest(revision_data(cluster))
    same = [revision for revision in known if revision.digest == wanted]
    return max(same, key=lambda revision: revision.number, default=None)


def name_for(cluster: StatefulCluster, collisions: int) -> str:
    """What to call the revision of the spec; another name for each collision."""
    number = int(digest([revision_data(cluster), collisions]), 16)
    letters = []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return f"{cluster.metadata.name}-{''.join(letters)}"


def next_number(known: Iterable[Revision]) -> int:
    """One more than any so far."""
    return max((revision.number for revision in known), default=0) + 1


def current(cluster: StatefulCluster, known: Iterable[Revision], update: str) -> str:
    """The revision that an update started from: the wanted one once that is all there is."""
    recorded = cluster.status.current_revision
    return recorded if any(revision.name == recorded for revision in known) else update


def to_forget(
    known: Iterable[Revision], pods: Iterable[Pod], kept: tuple[str, ...], limit: int
) -> list[Revision]:
    """Revisions that no pod has and that are beyond the history limit, the oldest first."""
    used = {*kept, *(pod.revision for pod in pods)}
    unused = sorted(
        (revision for revision in known if revision.name not in used), key=lambda each: each.number
    )
    return unused[: max(0, len(unused) - limit)]
