"""Reads the results of a checkup from its ConfigMap. Pure.

The controller reads them in every reconcile and, when the Job has ended, once more from the server.
Results that do not fit into the status are rejected as a whole.
"""

import json
from collections.abc import Mapping
from enum import StrEnum

from msgspec import field

from quintet.apis.checkup.contract import KEY_FAILURE_REASON, KEY_RESULT, KEY_SUCCEEDED
from quintet.apis.checkup.types import MAX_RESULT_BYTES
from quintet.apis.meta import Struct
from quintet.apis.text import truncate

MOST_RESULTS = 4096
LONGEST_REASON = 4096
# Go's JSON encoder, which writes objects to etcd, takes six bytes for each of these.
_SIX_BYTES = "<>&\u2028\u2029"


class Flaw(StrEnum):
    """Why results are invalid, as a reason for programs."""

    NO_DATA = "ResultsMissing"
    NO_SUCCEEDED = "SucceededMissing"
    ILLEGAL_SUCCEEDED = "SucceededIllegal"
    NO_FAILURE_REASON = "FailureReasonMissing"
    BINARY = "ResultsBinary"
    TOO_LARGE = "ResultsTooLarge"


class Results(Struct, frozen=True):
    """The results that a checkup has written so far."""

    succeeded: bool | None = None
    failure_reason: str = ""
    values: dict[str, str] = field(default_factory=dict)
    flaw: Flaw | None = None
    """Why the results are incomplete or invalid; None if they are complete."""
    problem: str = ""
    """The problem as a message for people."""

    @property
    def text(self) -> str:
        """Return the results as JSON text; empty if there are none."""
        return as_text(self.values) if self.values else ""


def as_text(values: Mapping[str, str]) -> str:
    """Return a map as the JSON text of an object."""
    return json.dumps(values, ensure_ascii=False)


def parse(data: Mapping[str, str] | None, binary: Mapping[str, str] | None = None) -> Results:
    """Return the results in the data of a ConfigMap."""
    if binary:
        named = ", ".join(sorted(binary)[:3])
        return Results(
            flaw=Flaw.BINARY, problem=f"results: binaryData ({named}) cannot be read: write texts into data"
        )
    if not data:
        return Results(flaw=Flaw.NO_DATA, problem="results: ConfigMap Data is nil")
    values = {key.removeprefix(KEY_RESULT): text for key, text in data.items() if key.startswith(KEY_RESULT)}
    if (problem := _oversize(values)) is not None:
        return _result_of(data, {}, Flaw.TOO_LARGE, problem)
    return _result_of(data, values)


def _result_of(
    data: Mapping[str, str], values: dict[str, str], flaw: Flaw | None = None, problem: str = ""
) -> Results:
    succeeded = {"true": True, "false": False}.get(data.get(KEY_SUCCEEDED, ""))
    reason = data.get(KEY_FAILURE_REASON, "")
    if flaw is None and KEY_SUCCEEDED not in data:
        flaw, problem = Flaw.NO_SUCCEEDED, "results: succeeded field is missing"
    elif flaw is None and succeeded is None:
        written = data[KEY_SUCCEEDED][:80]
        flaw = Flaw.ILLEGAL_SUCCEEDED
        problem = f"results: succeeded field is illegal: {written!r} is neither 'true' nor 'false'"
    elif flaw is None and succeeded is False and KEY_FAILURE_REASON not in data:
        flaw, problem = Flaw.NO_FAILURE_REASON, "results: failureReason field is missing"
    return Results(succeeded, truncate(reason, LONGEST_REASON), values, flaw, problem)


def _oversize(values: dict[str, str]) -> str | None:
    if len(values) > MOST_RESULTS:
        return f"results: {len(values)} results are more than the {MOST_RESULTS} that the status takes"
    # The first comparison is cheap and rejects what is much too large; the second is exact.
    size = sum(len(key) + len(text) for key, text in values.items())
    if size <= MAX_RESULT_BYTES:
        size = _stored_size(as_text(values))
    if size <= MAX_RESULT_BYTES:
        return None
    return (
        f"results: {size} bytes are more than the {MAX_RESULT_BYTES} that the status takes: "
        "write a summary, and the rest to the log or to an object of your own"
    )


def _stored_size(text: str) -> int:
    """Return the size in bytes of a text as a quoted and escaped JSON string in the stored object."""
    quoted = len(json.dumps(text, ensure_ascii=False).encode(errors="replace"))
    return quoted + sum((6 - len(letter.encode())) * text.count(letter) for letter in _SIX_BYTES)
