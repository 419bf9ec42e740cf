"""Jobs, pods and Checkups as the tests of decisions need them."""

from typing import Any

import msgspec

from quintet.apis.checkup import Checkup, CheckupSpec, CheckupStatus
from quintet.apis.meta import ObjectMeta
from quintet.controllers.checkup.decide.observed import CheckupPod, JobState, job_state
from quintet.controllers.checkup.decide.observed import JobStatus as _JobStatus

START = "2026-01-01T10:00:00Z"


def a_checkup(
    status: CheckupStatus | None = None, *, annotations: dict[str, str] | None = None, **spec: Any
) -> Checkup:
    metadata = ObjectMeta(name="echo", namespace="ns", uid="u-1", generation=3, annotations=annotations or {})
    fields = {"image": "image:1", "service_account_name": "echo", "timeout_seconds": 60, **spec}
    return Checkup(metadata=metadata, spec=CheckupSpec(**fields), status=status or CheckupStatus())


def a_pod(
    phase: str = "Running", *, reason: str = "", message: str = "", conditions: Any = (), **state: Any
) -> CheckupPod:
    containers = [{"name": "checkup", "state": state}] if state else []
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j-1", "controller": True}
    body = {
        "metadata": {"name": "echo-x", "namespace": "ns", "uid": "p-1", "ownerReferences": [owner]},
        "status": {
            "phase": phase,
            "reason": reason,
            "message": message,
            "conditions": list(conditions),
            "containerStatuses": containers,
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=CheckupPod)


def running(at: str = START) -> CheckupPod:
    return a_pod(running={"startedAt": at})


def terminated(code: int, reason: str = "Error", **pod: Any) -> CheckupPod:
    state = {"exitCode": code, "reason": reason, "startedAt": START}
    return a_pod("Succeeded" if code == 0 else "Failed", terminated=state, **pod)


def waiting(reason: str, message: str = "") -> CheckupPod:
    return a_pod("Pending", waiting={"reason": reason, "message": message})


def a_job(kind: str = "", reason: str = "", message: str = "") -> JobState:
    conditions = [{"type": kind, "status": "True", "reason": reason, "message": message,
                   "lastTransitionTime": START}] if kind else []  # fmt: skip
    status = msgspec.json.decode(msgspec.json.encode({"conditions": conditions}), type=_JobStatus)
    return job_state(100, START, status)
