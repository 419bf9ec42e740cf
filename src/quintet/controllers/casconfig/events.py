"""Records Events on configs and their targets."""

from quintet.apis.casconfig import CASCONFIGS, CASConfig, CASConfigStatus, ConditionType, TargetState
from quintet.apis.meta import find_condition
from quintet.controllers.casconfig.batch import Result
from quintet.controllers.casconfig.contests import entries, entry_key
from quintet.controllers.casconfig.decide.plan import Reason, Step
from quintet.runtime.events import NORMAL, WARNING, Recorder

MAX_EVENTS = 20
"""With more changed targets, only the config gets an Event: each Event costs as much as a change."""
_WITHOUT_EVENT = (Reason.LOOKING, Reason.NO_TARGETS)


class EventReporter:
    """Records the Events of configs and targets."""

    def __init__(self, events: Recorder) -> None:
        self._events = events

    def config(self, config: CASConfig, status: CASConfigStatus) -> None:
        """Record an Event if the Ready condition changed its reason or message."""
        before = find_condition(config.status.conditions, ConditionType.READY)
        now = find_condition(status.conditions, ConditionType.READY)
        if now is None or now.reason in _WITHOUT_EVENT:
            return
        if before is not None and (before.reason, before.message) == (now.reason, now.message):
            return
        kind = NORMAL if now.status == "True" else WARNING
        self._events.record(CASCONFIGS, config.key, config.metadata.uid, kind, now.reason, now.message)

    def targets(self, config: CASConfig, done: Result) -> None:
        """Record Events for targets that were changed or that failed."""
        known = entries(config)
        for step in done.changed[:MAX_EVENTS] if len(done.changed) <= MAX_EVENTS else ():
            self._changed(config, step)
        told = 0
        for step in done.steps.values():
            before = known.get(entry_key(step))
            if told < MAX_EVENTS and (before is None or before.state != step.state):
                told += self._on_error(config, step)

    def _changed(self, config: CASConfig, step: Step) -> None:
        if step.policies:
            note = f"CASConfig {config.key} has set {', '.join(step.paths)}"
            self._record(step, NORMAL, "Injected", note)
        else:
            self._record(step, NORMAL, "Restored", f"CASConfig {config.key} was taken back")

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
