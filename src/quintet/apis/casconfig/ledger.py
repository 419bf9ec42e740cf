"""What a config has changed on an object, written down on the object itself, in the same write.

One annotation per config, `casconfig.openebs.io/<config>`: for every path the value that was there before
(`was`; left out: none), the value that the config set (`is`; left out: it removed what was there), and what
is needed to put it back in its place. Several configs are layers on one another: `layer` says which one is
above. Pure. Read and written by `layers`; nothing else makes or changes one.
"""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from quintet.apis.casconfig.places import (
    ABSENT,
    CONTAINER_LISTS,
    IDENTITIES,
    METADATA_ROOTS,
    POD_ROOTS,
    Path,
    as_text,
    from_text,
    identity,
)
from quintet.apis.casconfig.security import value_risks
from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.meta import JsonObject, ObjectKey

PREFIX: Final = "casconfig.openebs.io/"
RESERVED: Final = (PREFIX, "quintet.dev/", "kubectl.kubernetes.io/last-applied-configuration")
"""Annotations that record changes to an object; a config must neither set nor restore them."""
LARGEST: Final = 64 * 1024
"""Bytes of one ledger. All annotations of an object together may have 256 KiB."""
LARGEST_ANNOTATIONS: Final = 256 * 1024
RESET_SECONDS: Final = 600
"""A change by others so long after the last one starts a new count."""
_PODS: Final = (("spec",), ("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"))


_encode_value = msgspec.json.Encoder(order="deterministic").encode


class LedgerError(ValueError):
    """A ledger that cannot be read: somebody else has changed it.

    It concerns the config of that ledger only. To all others it is an annotation like any other.
    """


class LedgerTooLargeError(ValueError):
    """What would have to be written down does not fit."""


class NotRestorableError(ValueError):
    """A value that a config must not write, and so could not restore."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One change: where, what was there, what was set."""

    path: Path
    was: Any = ABSENT
    now: Any = ABSENT
    at: int | None = None
    """Where in its list the value was."""
    made: int = 0
    """How many maps and lists around it were made for it."""

    @property
    def is_container(self) -> bool:
        """Whether it is about a container as a whole."""
        return self.path[0] in CONTAINER_LISTS and len(self.path) == 2


class Contest(NamedTuple):
    """How often others have changed what a config had set, and the config has set it again."""

    rounds: int
    generation: int
    """Of the config."""
    last: int
    """When it was set again for the last time, in seconds since 1970."""


def count_round(before: Contest | None, generation: int, now: int) -> Contest:
    """Return the contest with one more round; the first one if the last was long ago, or before an edit."""
    goes_on = before is not None and before.generation == generation and now - before.last <= RESET_SECONDS
    return Contest(before.rounds + 1 if before is not None and goes_on else 1, generation, now)


@dataclass(frozen=True, slots=True)
class Ledger:
    """All changes of one config on one object, in the order in which they were made."""

    config: ObjectKey
    layer: int
    pod: Path | None
    """Where in the object the pod is; None if it has none."""
    entries: tuple[Entry, ...]
    contest: Contest | None = None


def annotation(config: ObjectKey, namespace: str) -> str:
    """The key of a config's ledger on an object in a namespace (empty for one that is in none)."""
    if config.namespace == namespace:
        return f"{PREFIX}{config.name}"
    # Configs of several namespaces may have one name; `_` is in no name.
    digest = hashlib.blake2b(config.namespace.encode(), digest_size=6).hexdigest()
    return f"{PREFIX}{config.name}_{digest}"


def ledgers(obj: JsonObject, config: ObjectKey | None = None) -> list[Ledger]:
    """Return the readable ledgers of an object, the lowest layer first.

    Raises `LedgerError` if that of `config` is not readable.
    """
    namespace = (obj.get("metadata") or {}).get("namespace", "")
    found = []
    for key, text in _ledger_annotations(obj).items():
        try:
            found.append(_decode(key, text, namespace))
        except LedgerError:
            if config is not None and key == annotation(config, namespace):
                raise
    return sorted(found, key=lambda ledger: (ledger.layer, ledger.config))


def _ledger_annotations(obj: JsonObject) -> dict[str, str]:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return {key: text for key, text in annotations.items() if key.startswith(PREFIX)}


def has_ledger(obj: JsonObject, config: ObjectKey) -> bool:
    """Whether a config has changed an object, as its metadata say."""
    metadata = obj.get("metadata") or {}
    return annotation(config, metadata.get("namespace", "")) in (metadata.get("annotations") or {})


def without_ledgers(obj: JsonObject) -> JsonObject:
    """Return an object without its readable ledgers; what is not changed is shared."""
    metadata = obj.get("metadata") or {}
    namespace = metadata.get("namespace", "")
    removed = {annotation(ledger.config, namespace) for ledger in ledgers(obj)}
    if not removed:
        return obj
    kept = {key: value for key, value in metadata["annotations"].items() if key not in removed}
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**obj, "metadata": {**rest, "annotations": kept} if kept else rest}


def with_ledgers(obj: JsonObject, written: list[Ledger], *, bounded: bool = True) -> JsonObject:
    """Return an object with these ledgers and no other readable ones.

    Raises `LedgerTooLargeError` if there are bounds.
    """
    bare = without_ledgers(obj)
    if not written:
        return bare
    metadata = bare.get("metadata") or {}
    namespace = metadata.get("namespace", "")
    added = {annotation(ledger.config, namespace): _encode(ledger) for ledger in written}
    annotations = {**(metadata.get("annotations") or {}), **added}
    if bounded:
        _check_sizes(annotations, added)
    return {**bare, "metadata": {**metadata, "annotations": annotations}}


def check_restorable(entries: Iterable[Entry]) -> None:
    """Raise `NotRestorableError` if what an undo would write breaks the rules for what is injected."""
    for entry in entries:
        if (problem := _risk(entry.path, entry.was)) is not None:
            raise NotRestorableError(
                f"{as_text(entry.path)} cannot be replaced, because a config must not restore it: {problem}"
            )


def _encode(ledger: Ledger) -> str:
    body: JsonObject = {"of": str(ledger.config), "layer": ledger.layer}
    if ledger.pod is not None:
        body["pod"] = ".".join(ledger.pod)
    if ledger.contest is not None:
        body["contest"] = list(ledger.contest)
    # Entries are in their order, and the fields of a value in any: their order is no difference.
    entries = {as_text(entry.path): _encoded_entry(entry) for entry in ledger.entries}
    body["set"] = {path: msgspec.Raw(_encode_value(entry)) for path, entry in entries.items()}
    return msgspec.json.encode(body).decode()


def _check_sizes(annotations: dict[str, str], added: Collection[str]) -> None:
    sizes = {key: len(key) + len(value.encode()) for key, value in annotations.items()}
    for key in added:
        if sizes[key] > LARGEST:
            raise_too_large(sizes[key])
    if sum(sizes.values()) > LARGEST_ANNOTATIONS:
        raise LedgerTooLargeError(
            "with what was there before written down, the annotations would have more than "
            f"{LARGEST_ANNOTATIONS} bytes"
        )


def raise_too_large(size: int) -> NoReturn:
    """Raise `LedgerTooLargeError` for a ledger of so many bytes, or more."""
    raise LedgerTooLargeError(
        f"what this config changes takes {size} bytes or more to write down, and {LARGEST} are allowed; "
        f"set less in one config"
    )


def _encoded_entry(entry: Entry) -> JsonObject:
    body: JsonObject = {}
    if entry.was is not ABSENT:
        body["was"] = entry.was
    if entry.now is not ABSENT:
        body["is"] = entry.now
    if entry.at is not None:
        body["at"] = entry.at
    if entry.made:
        body["made"] = entry.made
    return body


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    of: str
    layer: int
    set: dict[str, dict[str, Any]]
    pod: str | None = None
    contest: Contest | None = None


@lru_cache(maxsize=64)  # a decision reads each ledger several times
def _decode(key: str, text: str, object_namespace: str) -> Ledger:
    try:
        body = msgspec.json.decode(text, type=_Body)
        namespace, _, name = body.of.rpartition("/")
        pod = tuple(body.pod.split(".")) if body.pod is not None else None
        if pod is not None and pod not in _PODS:
            raise ValueError(f"{body.pod} is not where a pod is")
        entries = tuple(_decoded_entry(path, entry) for path, entry in body.set.items())
        if annotation(ObjectKey(namespace, name), object_namespace) != key:
            raise ValueError(f"it is the ledger of the config {body.of}")
    except (*DECODE_ERRORS, ValueError, TypeError) as error:
        raise LedgerError(
            f"metadata.annotations[{key}] is not as the controller wrote it: {error}"
        ) from error
    return Ledger(ObjectKey(namespace, name), body.layer, pod, entries, body.contest)


def _decoded_entry(text: str, body: dict[str, Any]) -> Entry:
    """A ledger names nothing but what a config can set: a forged one must not lead anywhere else."""
    path = from_text(text)
    allowed = len(path) == 2 if path[0] in METADATA_ROOTS else path[0] in POD_ROOTS and len(path) > 1
    at, made = body.get("at"), body.get("made", 0)
    if not allowed or set(body) - {"was", "is", "at", "made"}:
        raise ValueError(f"{text} is nothing that a config changes")
    if not (at is None or (isinstance(at, int) and at >= 0)) or not isinstance(made, int) or made < 0:
        raise ValueError(f"{text} has no such place")
    entry = Entry(path, body.get("was", ABSENT), body.get("is", ABSENT), at, made)
    for value in (entry.was, entry.now):
        if (problem := _placement_error(path, value) or _risk(path, value)) is not None:
            raise ValueError(f"{text} must not be restored: {problem}")
    return entry


def _placement_error(path: Path, value: Any) -> str | None:
    """Return why a value cannot be at a path."""
    if path[0] == "annotations" and path[1].startswith(RESERVED):
        return "the annotation is reserved"
    if value is ABSENT:
        return None
    if path[0] in METADATA_ROOTS:
        return None if isinstance(value, str) else "it is not a string"
    if path[-2] in IDENTITIES and identity(path[-2], value) != path[-1]:
        return "it is another item of the list"
    return None


def _risk(path: Path, value: Any) -> str | None:
    if path[0] not in CONTAINER_LISTS:
        return None
    return next((f"{field}: {why}" for field, why in value_risks(path, value)), None)
