"""Changes an object for one config, beneath and above what other configs have changed on it.

All layers are taken off, from the top down: what still holds the value that a config set gets back what
was there before; what somebody else has changed since stays as it is. Then all are laid on again from the
bottom up, with the one layer in question as it is to be. The difference to the live object is the patch,
and the ledgers are part of it. Pure; `injection` says what a layer is to be, the controller sends the patch.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from quintet.apis.casconfig.ledger import (
    Entry,
    Ledger,
    check_restorable,
    ledgers,
    with_ledgers,
    without_ledgers,
)
from quintet.apis.casconfig.places import ABSENT, Path, Subject, absolute, as_text
from quintet.apis.casconfig.sameness import same
from quintet.apis.jsonpatch import diff
from quintet.apis.meta import JsonObject, ObjectKey

Leave = Callable[[Ledger, Entry], bool]


class _Found(NamedTuple):
    """How a value that was set looks on an object."""

    value: Any
    before: list[str] | None = None
    """What stands before it, if it is an item of a list."""


class Setting(NamedTuple):
    """One value to be set, or with `ABSENT` to be removed."""

    path: Path
    value: Any
    at: int | None = None
    """Where in its list a new item goes; left out, to the end."""


class Left(NamedTuple):
    """A path that does not hold what was set there: somebody has changed it since, so it stays."""

    path: str
    found: Any
    """What is there now, or `ABSENT`."""


class Rewrite(NamedTuple):
    """What is to become of an object."""

    patch: tuple[JsonObject, ...]
    """One JSON patch, ledgers included, that the server refuses (409) if the object has changed since it
    was read. Empty: nothing to do."""
    object: JsonObject
    """The object as it is then."""
    paths: tuple[str, ...] = ()
    """What the config holds on it then."""
    left: tuple[Left, ...] = ()
    """What the config had set, somebody else has changed, and now stays as they left it."""
    retaken: tuple[str, ...] = ()
    """What the config had set, somebody else has changed, and is now set again."""


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
    live: JsonObject, config: ObjectKey, settings: Iterable[Setting], pod: Path | None = None
) -> Rewrite:
    """Make the layer of a config what it is to be; without settings, take it away.

    `pod` is where the object has its pod. Raises `LedgerError`, `LedgerTooLargeError` and
    `NotRestorableError`.
    """
    wanted = list(settings)
    # A container in which something is set is one that the config still has to do with.
    paths = {path for setting in wanted for path in (setting.path, setting.path[:2])}
    stack = _Stack(live, config)
    subject = stack.take_off(lambda ledger, entry: ledger.config == config and entry.path not in paths)
    written: list[Ledger] = []
    for ledger in stack.with_layer(config, pod):
        if ledger.config == config:
            now = Ledger(config, ledger.layer, pod, stack.lay(subject, config, pod, wanted))
        else:
            now = Ledger(ledger.config, ledger.layer, ledger.pod, stack.lay_again(subject, ledger))
        if now.entries:
            written.append(now)
    held = next((ledger.entries for ledger in written if ledger.config == config), ())
    if wanted:
        check_restorable(held)
    # What is taken back must fit, whatever it reveals: only what is set has a bound.
    result = with_ledgers(subject.object, written, bounded=bool(wanted))
    lost = stack.lost.get(config, {})
    return Rewrite(
        _with_tests(live, diff(live, result)),
        result,
        tuple(as_text(entry.path) for entry in held),
        tuple(Left(as_text(path), found) for path, found in lost.items() if path not in paths),
        tuple(as_text(path) for path in lost if path in paths),
    )


def recorded_settings(live: JsonObject, config: ObjectKey) -> tuple[Setting, ...]:
    """What a config has set on an object, so that it can be set again later. Raises `LedgerError`."""
    found = next((ledger.entries for ledger in ledgers(live, config) if ledger.config == config), ())
    return tuple(Setting(entry.path, entry.now, entry.at) for entry in found)


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
        self._as_found: dict[tuple[ObjectKey, Path], _Found] = {}

    def take_off(self, leave: Leave = lambda ledger, entry: False) -> Subject:
        """The object without any layer.

        What somebody else has changed stays. A container that a config brought is different: an edit of
        it does not make it theirs, so it is taken off as well, unless it is to be left.
        """
        subject = Subject(without_ledgers(self.live))
        for ledger in reversed(self.ledgers):
            for entry in reversed(ledger.entries):
                path = absolute(entry.path, ledger.pod)
                found = subject.get(path) if path is not None else ABSENT
                if path is None or not same(entry.path, found, entry.now):
                    self.lost.setdefault(ledger.config, {})[entry.path] = found
                    if path is None or not _goes_anyway(entry, found) or leave(ledger, entry):
                        continue
                if found is not ABSENT:
                    self._as_found[ledger.config, entry.path] = _Found(found, subject.before(path))
                _restore(subject, path, entry)
        return subject

    def with_layer(self, config: ObjectKey, pod: Path | None) -> list[Ledger]:
        """All layers in order, with one for the config on top if it has none yet."""
        if any(ledger.config == config for ledger in self.ledgers):
            return self.ledgers
        top = max((ledger.layer for ledger in self.ledgers), default=0)
        return [*self.ledgers, Ledger(config, top + 1, pod, ())]

    def lay_again(self, subject: Subject, ledger: Ledger) -> tuple[Entry, ...]:
        """A layer of another config as it was found. What it has lost is not set again here: that is for
        its own config to decide.
        """
        lost = self.lost.get(ledger.config, {})
        entries: list[Entry] = []
        for entry in ledger.entries:
            found = self._as_found.get((ledger.config, entry.path))
            if entry.path not in lost or found is not None:
                setting = Setting(entry.path, entry.now, entry.at)
                entries += _lay(subject, ledger.pod, setting, found or _Found(entry.now))
        return tuple(entries)

    def lay(
        self, subject: Subject, config: ObjectKey, pod: Path | None, settings: Iterable[Setting]
    ) -> tuple[Entry, ...]:
        """Set values; returns what is to be written down about those that could be set."""
        entries: list[Entry] = []
        for setting in settings:
            found = self._as_found.get((config, setting.path), _Found(setting.value))
            # As the server has it, if that is what is meant: its defaults are no difference.
            value = found.value if same(setting.path, found.value, setting.value) else setting.value
            entries += _lay(subject, pod, setting, _Found(value, found.before))
        return tuple(entries)


def _lay(subject: Subject, pod: Path | None, setting: Setting, looks: _Found) -> Iterable[Entry]:
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
        yield Entry(setting.path, was, setting.value, setting.at if at is None else at, made)


def _goes_anyway(entry: Entry, found: Any) -> bool:
    """Whether a path that does not hold what was set is put back all the same."""
    if found is ABSENT:
        return entry.was is ABSENT  # gone already, but maybe not the empty map that was made for it
    return entry.is_container and entry.now is not ABSENT


def _restore(subject: Subject, path: Path, entry: Entry) -> None:
    if entry.was is ABSENT:
        subject.remove(path, entry.made)
    else:
        subject.put(path, entry.was, entry.at)
