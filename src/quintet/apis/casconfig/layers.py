"""Changes an object for one config, beneath and above what other configs have changed on it.

All layers are taken off, from the top down: what still holds the value that a config set gets back what
was there before; what somebody else has changed since stays as it is. Then all are laid on again from the
bottom up, with the one layer in question as it is to be: with new values, as it was before, or not at all.
Both ways every field follows one rule (`merging`): an edit by others is an edit of the object beneath all
configs. The difference to the live object is the patch, and the ledgers are part of it.

Pure; `injection` says what a layer is to be, the controller sends the patch.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from quintet.apis.casconfig.ledger import (
    LARGEST,
    Contest,
    Entry,
    Ledger,
    check_restorable,
    count_round,
    ledgers,
    raise_too_large,
    with_ledgers,
    without_ledgers,
)
from quintet.apis.casconfig.merging import additions, holds, merge, without_additions
from quintet.apis.casconfig.places import ABSENT, POD_ROOTS, Path, Subject, absolute, as_text, copy_value
from quintet.apis.casconfig.rewrites import Found, Left, Recorded, RecordedLayer, Rewrite, Setting, least_size
from quintet.apis.casconfig.sameness import same
from quintet.apis.casconfig.template import POD
from quintet.apis.jsonpatch import diff
from quintet.apis.meta import JsonObject, ObjectKey


def original(live: JsonObject) -> JsonObject:
    """An object as it would be without any config. Includes are matched against this, so that no config
    can make another one, or itself, match or stop to match.
    """
    stack = _Stack(live)
    return stack.take_off().object if stack.ledgers else live


def beneath(live: JsonObject, config: ObjectKey) -> JsonObject:
    """An object as the layer of a config finds it: with the layers below it, without it and those above.

    Raises `LedgerError`.
    """
    stack = _Stack(live, config)
    subject = stack.take_off()
    for ledger in stack.ledgers:
        if ledger.config == config:
            break
        stack.lay_again(subject, ledger)
    return subject.object


def build_rewrite(
    live: JsonObject,
    config: ObjectKey,
    settings: Iterable[Setting],
    pod: Path | None = None,
    *,
    generation: int = 0,
    now: int = 0,
) -> Rewrite:
    """Make the layer of a config what it is to be; without settings, take it away.

    `pod` is where the object has its pod; `generation` and `now` are for counting rounds. Raises
    `LedgerError`, `LedgerTooLargeError` and `NotRestorableError`.
    """
    wanted = list(settings)
    if (size := sum(map(least_size, wanted))) > LARGEST:
        raise_too_large(size)  # before the work that it would take
    stack = _Stack(live, config)
    keep = {setting.path for setting in wanted}
    subject = stack.take_off(config, keep)
    stack.add_layer(Ledger(config, stack.top + 1, pod, ()))
    stack.count_round(config, keep, generation, now)
    return stack.rewrite(
        subject, config, pod, keep, lambda: stack.lay(subject, config, pod, wanted), bounded=bool(wanted)
    )


def restore_layer(
    live: JsonObject, config: ObjectKey, layer: RecordedLayer, pod: Path | None = None
) -> Rewrite:
    """Make the layer of a config what it was, except where others have changed the object since.

    Raises `LedgerError` and `LedgerTooLargeError`.
    """
    stack = _Stack(live, config)
    keep = {each.entry.path for each in layer.values if each.held or each.found}
    subject = stack.take_off(config, keep)
    stack.add_layer(Ledger(config, layer.layer, pod, ()))
    stack.reorder(layer.order)
    stack.set_contest(config, layer.contest)
    return stack.rewrite(
        subject, config, pod, keep, lambda: stack.lay_back(subject, config, pod, layer.values), bounded=False
    )


def record_layer(live: JsonObject, config: ObjectKey) -> RecordedLayer:
    """Return the layer of a config as it is, so that it can be restored later. Raises `LedgerError`."""
    stack = _Stack(live, config)
    stack.take_off()
    own = next((ledger for ledger in stack.ledgers if ledger.config == config), Ledger(config, 0, None, ()))
    values = tuple(stack.record(own, entry) for entry in own.entries)
    return RecordedLayer(own.layer, values, stack.order_of_others(config), own.contest)


def _with_tests(live: JsonObject, operations: list[JsonObject]) -> tuple[JsonObject, ...]:
    version = (live.get("metadata") or {}).get("resourceVersion")
    if not operations or version is None:
        return tuple(operations)
    # Not a `test`: a failed one is told as 422, as if the patch itself were wrong. This is told as 409.
    return ({"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations)


class _Stack:
    """The layers of one object while they are taken off and laid on again."""

    def __init__(self, live: JsonObject, config: ObjectKey | None = None) -> None:
        self.live = live
        self.ledgers = ledgers(live, config)
        self.lost: dict[ObjectKey, dict[Path, Any]] = {}
        """By config: what does not hold what was set, and what it holds."""
        self.left: dict[Path, Any] = {}
        """Fields that a config does not set any more, others have changed, and so stay."""
        self.dropped: list[Path] = []
        """Fields that others have added to containers of a config, and that are removed or replaced."""
        self.rounds = self.recorded = 0
        self._found: dict[tuple[ObjectKey, Path], Any] = {}
        self._as_found: dict[tuple[ObjectKey, Path], Found] = {}
        """What has been taken off, as it was found."""

    def take_off(self, config: ObjectKey | None = None, keep: Collection[Path] = ()) -> Subject:
        """Return the object without any layer; of `config`, the values outside of `keep` end for good."""
        subject = Subject(without_ledgers(self.live))
        for ledger in reversed(self.ledgers):
            for entry in reversed(ledger.entries):
                path = absolute(entry.path, ledger.pod)
                if path is None or self._is_unread(ledger, entry):
                    continue
                found = subject.get(path)
                held = holds(entry.path, found, entry.now)
                beneath = self._beneath(
                    entry, found, held, ledger.config == config and entry.path not in keep
                )
                taken = held or not same(entry.path, beneath, found)
                kept = found if taken else copy_value(found)
                self._found[ledger.config, entry.path] = kept
                if not held:
                    self.lost.setdefault(ledger.config, {})[entry.path] = kept
                if taken and found is not ABSENT:
                    self._as_found[ledger.config, entry.path] = Found(found, subject.before(path))
                if beneath is ABSENT:
                    subject.remove(path, entry.made)
                elif taken:
                    subject.put(path, beneath, entry.at)
        return subject

    def _beneath(self, entry: Entry, found: Any, held: bool, ends: bool) -> Any:
        """Return what is at the path of an entry without it."""
        path, changed = entry.path, dict[Path, Any]()
        if entry.is_container and entry.was is ABSENT and entry.now is not ABSENT and found is not ABSENT:
            # A container that a config has brought goes as a whole. If others have changed what the config
            # has set in it, it is theirs once the config ends.
            beneath = found if ends and not held else ABSENT
            if ends and held:
                self.dropped += additions(path, found, entry.now)
            elif ends:
                changed[path] = copy_value(found)
        else:
            beneath = merge(path, entry.now, found, entry.was, lost=changed)
        if ends:
            self.left |= changed
        return beneath

    def _is_unread(self, ledger: Ledger, entry: Entry) -> bool:
        """Return whether the object was read without the part that an entry is about."""
        return entry.path[0] in POD_ROOTS and (ledger.pod or POD)[0] not in self.live

    def rewrite(
        self,
        subject: Subject,
        config: ObjectKey,
        pod: Path | None,
        keep: Collection[Path],
        lay: Callable[[], tuple[Entry, ...]],
        *,
        bounded: bool,
    ) -> Rewrite:
        """Lay on all layers, that of `config` by `lay`, and return the difference to the live object."""
        written: list[Ledger] = []
        held: tuple[Entry, ...] = ()
        for ledger in self.ledgers:
            if ledger.config == config:
                unread = tuple(each for each in ledger.entries if self._is_unread(ledger, each))
                held = lay()
                now = replace(ledger, pod=ledger.pod if unread else pod, entries=(*unread, *held))
            else:
                now = replace(ledger, entries=self.lay_again(subject, ledger))
            if now.entries:
                written.append(now)
        if bounded:
            check_restorable(held)
        # What is taken back must fit, whatever it reveals: only what is set has a bound.
        result = with_ledgers(subject.object, written, bounded=bounded)
        paths = tuple(as_text(entry.path) for entry in held)
        retaken = tuple(as_text(path) for path in self.lost.get(config, {}) if path in keep)
        if retaken and self._is_hidden(config, subject, held):
            return Rewrite((), self.live, paths)
        return Rewrite(
            _with_tests(self.live, diff(self.live, result)),
            result,
            paths,
            tuple(Left(as_text(path), found) for path, found in self.left.items()),
            retaken,
            tuple(as_text(path) for path in self.dropped),
            self.rounds,
            self.recorded,
        )

    def _is_hidden(self, config: ObjectKey, subject: Subject, held: Iterable[Entry]) -> bool:
        """Return whether what a config sets again is beneath a container that another config has replaced.

        Setting it again would change nothing but ledgers, and every look would find it changed again.
        """
        before = {path: entry.now for path, entry in self._entries(config).items()}
        return before == {entry.path: entry.now for entry in held} and not diff(
            without_ledgers(self.live), subject.object
        )

    @property
    def top(self) -> int:
        """The highest layer."""
        return max((ledger.layer for ledger in self.ledgers), default=0)

    def add_layer(self, ledger: Ledger) -> None:
        """Add the layer of a config that has none."""
        if all(each.config != ledger.config for each in self.ledgers):
            self.ledgers = sorted([*self.ledgers, ledger], key=lambda each: (each.layer, each.config))

    def count_round(self, config: ObjectKey, keep: Collection[Path], generation: int, now: int) -> None:
        """Count a round of a config if others have changed what it sets again."""
        contest = next(ledger.contest for ledger in self.ledgers if ledger.config == config)
        self.recorded = contest.rounds if contest is not None and contest.generation == generation else 0
        self.rounds = self.recorded
        if any(path in keep for path in self.lost.get(config, {})):
            contest = count_round(contest, generation, now)
            self.set_contest(config, contest)
            self.rounds = contest.rounds

    def set_contest(self, config: ObjectKey, contest: Contest | None) -> None:
        """Record the contest of a config."""
        self.ledgers = [
            replace(ledger, contest=contest) if ledger.config == config else ledger for ledger in self.ledgers
        ]

    def order_of_others(self, config: ObjectKey) -> dict[tuple[ObjectKey, Path], list[str]]:
        """Return what stands before the items that other configs have added to lists."""
        return {
            key: found.before
            for key, found in self._as_found.items()
            if key[0] != config and found.before is not None
        }

    def reorder(self, order: Mapping[tuple[ObjectKey, Path], list[str]]) -> None:
        """Let items of other configs stand where they stood before, instead of where they were found."""
        for key, before in order.items():
            if key in self._as_found:
                self._as_found[key] = self._as_found[key]._replace(before=before)

    def record(self, ledger: Ledger, entry: Entry) -> Recorded:
        """Return how an entry was found."""
        key = ledger.config, entry.path
        held = entry.path not in self.lost.get(ledger.config, {})
        gone = entry.is_container and not held and self._found.get(key) is ABSENT
        return Recorded(entry, held, self._as_found.get(key), gone)

    def lay_again(self, subject: Subject, ledger: Ledger) -> tuple[Entry, ...]:
        """Lay on a layer as it was found. What others have changed in it is for its own config to decide."""
        entries: list[Entry] = []
        for entry in ledger.entries:
            was = self.record(ledger, entry)
            if self._is_unread(ledger, entry):
                entries.append(entry)
            elif was.held or was.found:
                setting = Setting(entry.path, entry.now, entry.at)
                entries += _lay(subject, ledger.pod, setting, was.found or Found(entry.now))
            elif not (was.gone or _is_removed(subject, ledger.pod, entry)):
                entries.append(_beside(subject, ledger.pod, entry))
        return tuple(entries)

    def lay(
        self, subject: Subject, config: ObjectKey, pod: Path | None, settings: Iterable[Setting]
    ) -> tuple[Entry, ...]:
        """Set values; return the entries of those that could be set."""
        before = self._entries(config)
        entries: list[Entry] = []
        for setting in settings:
            path, value, _ = setting
            found, entry = self._as_found.get((config, path)), before.get(path)
            if found is not None and entry is not None and value is not ABSENT:
                value = merge(
                    path, entry.now, found.value, value, enforce=True, lost=self.left, replaced=self.dropped
                )
            stays = entry is None or entry.was is not ABSENT or entry.at == setting.at
            entries += _lay(subject, pod, setting, Found(value, found.before if found and stays else None))
        return tuple(entries)

    def lay_back(
        self, subject: Subject, config: ObjectKey, pod: Path | None, layer: Iterable[Recorded]
    ) -> tuple[Entry, ...]:
        """Restore values, except where others have changed them since; return the entries of the layer."""
        now = self._entries(config)
        entries: list[Entry] = []
        for entry, held, found, gone in layer:
            if gone:
                continue
            path, place = entry.path, absolute(entry.path, pod)
            ours = found.value if found is not None else ABSENT
            if place is None or not (held or found):
                entries.append(_beside(subject, pod, entry))
                continue
            if path in now:
                value = merge(path, now[path].now, self._found.get((config, path), ABSENT), ours)
            else:
                value = merge(path, entry.was, subject.get(place), ours)
            if holds(path, value, entry.now) or (
                value is not ABSENT and not same(path, value, subject.get(place))
            ):
                setting = Setting(path, entry.now, entry.at)
                entries += _lay(subject, pod, setting, Found(value, found.before if found else None))
            else:
                entries.append(_beside(subject, pod, entry))
        return tuple(entries)

    def _entries(self, config: ObjectKey) -> dict[Path, Entry]:
        return {
            entry.path: entry
            for ledger in self.ledgers
            if ledger.config == config
            for entry in ledger.entries
        }


def _lay(subject: Subject, pod: Path | None, setting: Setting, looks: Found) -> Iterable[Entry]:
    """Set a value as it looks on this object, and in a list where it stood: order alone is no change."""
    path = absolute(setting.path, pod)
    if path is None:
        return
    was, at = subject.get(path), subject.index(path)
    if setting.value is ABSENT:
        if was is not ABSENT:
            subject.remove(path)
            yield Entry(setting.path, was, ABSENT, at)
        return
    stood = subject.index_after(path, looks.before) if looks.before is not None else None
    made = subject.put(path, looks.value, setting.at if stood is None else stood)
    if made is not None:
        was = without_additions(setting.path, was, looks.value, setting.value)
        yield Entry(setting.path, was, setting.value, setting.at if at is None else at, made)


def _is_removed(subject: Subject, pod: Path | None, entry: Entry) -> bool:
    """Return whether an entry is about a container that a lower layer has replaced or removed by now."""
    path = absolute(entry.path, pod)
    return entry.is_container and entry.now is not ABSENT and path is not None and subject.get(path) is ABSENT


def _beside(subject: Subject, pod: Path | None, entry: Entry) -> Entry:
    """Return the entry of a value that others have changed, and that is not set again."""
    path = absolute(entry.path, pod)
    found = subject.get(path) if path is not None else ABSENT
    if not holds(entry.path, found, entry.now):
        return entry
    # What is there now only looks as if this entry had set it.
    return replace(entry, was=without_additions(entry.path, found, found, entry.now))
