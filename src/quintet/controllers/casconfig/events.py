"""Records Events on configs and their targets."""

from collections.abc import Iterable

from quintet.apis.casconfig import CASConfig, CASConfigStatus, ConditionType, TargetState
from quintet.apis.meta import find_condition
from quintet.controllers.casconfig.batch import BatchResult
from quintet.controllers.casconfig.contests import entries, entry_key
from quintet.controllers.casconfig.decide.plan import Reason, Step
from quintet.runtime.events import NORMAL, WARNING, Event, Recorder

MAX_EVENTS = 20
"""With more changed targets, only the config gets an Event: each Event costs as much as a change."""
_WITHOUT_EVENT = (Reason.LOOKING, Reason.NO_TARGETS)


def config_events(before: CASConfigStatus, after: CASConfigStatus) -> Iterable[Event]:
    """Return an Event if the config is ready or not ready for another reason than before."""
    old, new = (find_condition(status.conditions, ConditionType.READY) for status in (before, after))
    if new is None or new.reason in _WITHOUT_EVENT:
        return ()
    if old is not None and (old.reason, old.message) == (new.reason, new.message):
        return ()
    return (Event(NORMAL if new.status == "True" else WARNING, new.reason, new.message),)


class EventReporter:
    """Records the Events of configs and targets."""

    def __init__(self, events: Recorder) -> None:
        self._events = events

    def targets(self, config: CASConfig, done: BatchResult) -> None:
        """Record Events for targets that were changed or that failed."""
        known = entries(config)
        for step in done.changed[:MAX_EVENTS] if len(done.changed) <= MAX_EVENTS else ():
            self._report_change(config, step)
        reported = 0
        for step in done.steps.values():
            before = known.get(entry_key(step))
            if reported < MAX_EVENTS and (before is None or before.state != step.state):
                reported += self._on_error(config, step)

    def _report_change(self, config: CASConfig, step: Step) -> None:
        if step.policies:
            note = f"CASConfig {config.key} set {', '.join(step.paths)}"
            self._record(step, NORMAL, "Injected", note)
        else:
            self._record(step, NORMAL, "Restored", f"The changes of CASConfig {config.key} were undone")
        if step.foreign and step.state is not TargetState.LEFT:
            self._record(step, WARNING, "LeftAsFound", f"CASConfig {config.key}: {step.foreign}")

    def _on_error(self, config: CASConfig, step: Step) -> bool:
        reasons = {
            TargetState.FAILED: "InjectionFailed",
            TargetState.CONTESTED: "Contested",
            TargetState.LEFT: "LeftAsFound",
        }
        reason = reasons.get(step.state)
        if reason is not None:
            self._record(step, WARNING, reason, f"CASConfig {config.key}: {step.message}")
        return reason is not None

    def _record(self, step: Step, kind: str, reason: str, note: str) -> None:
        self._events.record(step.resource, step.key, step.uid, kind, reason, note, action="Inject")
