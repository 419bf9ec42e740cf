"""Results of probing a backend: one reason for each stage that can fail.

The reasons are public; what to do about each: docs/eventingbackend.md.
"""

from dataclasses import dataclass
from enum import StrEnum

from quintet.apis.eventingbackend import PartCondition
from quintet.apis.meta import ObjectKey


class Reason(StrEnum):
    """Why a backend is not ready, in the order of the stages."""

    SERVER_OF_OTHER = "Server belongs to another backend"
    CLAIMED = "Stream claimed by another backend"
    SERVER_FIXED = "Server cannot be changed"
    SERVER_STARTING = "NATS server not started"
    SECRET_FORBIDDEN = "Secret not readable"
    SECRET_MISSING = "Secret not found"
    SECRET_MALFORMED = "Secret not usable"
    UNRESOLVED = "Server name not resolved"
    ADDRESS_REFUSED = "Server address refused"
    UNREACHABLE = "Server not reached"
    CERTIFICATE_EXPIRED = "Server certificate expired"
    TLS_FAILED = "TLS handshake failed"
    LOGIN_REFUSED = "Login refused"
    NO_NATS = "Server speaks no NATS"
    NOT_PERMITTED = "Not permitted by the server"
    NO_JETSTREAM = "JetStream not available"
    STREAM_REFUSED = "Stream refused by the server"
    STREAM_FULL = "Stream full"
    SERVER_FAILED = "Server gave no usable answer"
    MOVING = "Earlier subjects in use"
    TOKEN_REFUSED = "EventMesh token refused"
    API_FAILED = "Objects could not be made"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of probing a backend."""

    reason: Reason | None = None
    """None if the backend is ready."""
    message: str = ""
    secret_version: str = ""
    """Version of the Secret that the probe used."""

    @property
    def ready(self) -> bool:
        """Whether every stage succeeded."""
        return self.reason is None

    @property
    def usable(self) -> bool:
        """Whether the configuration can be used: a full stream needs dispatchers more than any other."""
        return self.reason in (None, Reason.STREAM_FULL)

    @property
    def condition(self) -> PartCondition:
        """The result as a condition."""
        if self.reason is None:
            return PartCondition("True", message=self.message)
        return PartCondition("False", self.reason.value, self.message)


NOT_PROBED = ProbeResult(Reason.SERVER_FAILED)
"""Result for a backend that was not probed."""
TOO_MANY_MOVES = ProbeResult(
    Reason.MOVING,
    "streamSubjectPrefix and eventTypePrefix have changed too often: the previous configuration stays in "
    "use until the events with the earlier subjects in status.formerSubjects are delivered",
)
"""Result while the status cannot hold another former prefix."""


def server_of_other(owner: ObjectKey) -> ProbeResult:
    """Return the result for a `url` that names a server which the operator runs for a backend."""
    text = (
        f"the url names the NATS server that runs for EventingBackend {owner}, and it serves that backend "
        "alone: remove url to get a server of your own, or name one that you run"
    )
    return ProbeResult(Reason.SERVER_OF_OTHER, text)
