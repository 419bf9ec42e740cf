"""Everything that can go wrong between us and the API server, as one tree.

    KubeError
    ├── ConfigError            the kubeconfig or in-cluster files cannot be used
    ├── WriteFenced            we are no longer the leader: the write was not sent
    ├── Unreachable            no answer: refused, reset, cut off in the middle
    │   ├── DeadlineExceeded   no answer in time
    │   └── UntrustedServer    its certificate does not verify
    ├── UnexpectedAnswer       success, but not the object that was asked for
    └── ApiError               the server answered with a failure Status
        ├── BadRequest         400
        ├── Unauthorized       401
        ├── Forbidden          403  (.namespace_terminating)
        ├── NotFound           404
        ├── Conflict           409  somebody changed the object, or a precondition failed
        │   └── AlreadyExists       there is an object of that name
        ├── Gone               410  that resource version or page is too old
        ├── Unsupported        405, 406, 415  the server does not do that
        ├── TooLarge           413
        ├── Invalid            422  validation refused the object (.causes)
        ├── TooManyRequests    429  (.retry_after)
        └── ServerFault        5xx  (.retry_after)

The class is chosen by `error_for` from the status code and the machine-readable
reason, never from message text. Each error knows the request that it answers.
"""

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.meta import Struct


class Cause(Struct, frozen=True):
    """One field-level cause inside a failure Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True):
    """What a failure Status says beyond its message."""

    kind: str = ""
    name: str = ""
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: int = 0


class Status(Struct, frozen=True):
    """The API server's answer to a request that failed."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class KubeError(Exception):
    """Base of all errors of this layer."""

    retry_after: float | None = None
    """Seconds that the server asked us to stay away, if it did."""


class ConfigError(KubeError):
    """The configuration cannot be used; says what to do about it."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(f"{message}: {next_step}")
        self.message = message
        self.next_step = next_step


class WriteFenced(KubeError):
    """A write was held back because leadership has ended."""


class Unreachable(KubeError):
    """The server gave no answer. A write may or may not have been carried out."""


class DeadlineExceeded(Unreachable):
    """The server gave no answer in time."""


class UntrustedServer(Unreachable):
    """The server's certificate does not verify against the configured authority."""


class UnexpectedAnswer(KubeError):
    """The answer does not decode: something else than an API server, or an object of another shape."""


class ApiError(KubeError):
    """The server answered with a failure."""

    def __init__(self, request: str, status: Status, retry_after: float | None = None) -> None:
        super().__init__(f"{request}: {status.code} {status.reason}: {status.message}")
        self.request = request
        self.status = status
        self._details = status.details or StatusDetails()
        self.retry_after = retry_after or float(self._details.retry_after_seconds) or None

    @property
    def message(self) -> str:
        """The server's own words."""
        return self.status.message

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Field-level causes, if the server named any."""
        return self._details.causes or ()


class BadRequest(ApiError):
    """The server could not understand the request."""


class Unauthorized(ApiError):
    """The server does not know who we are."""

    expiry: str | None = None
    """Why that may be: our certificate has run out."""


class Forbidden(ApiError):
    """We may not do that."""

    @property
    def namespace_terminating(self) -> bool:
        """Whether the only obstacle is that the namespace is being deleted."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)


class NotFound(ApiError):
    """There is no such object, or no such type."""


class Conflict(ApiError):
    """The object changed under us, or a precondition (uid, version) did not hold."""


class AlreadyExists(Conflict):
    """An object of that name is there already."""


class Gone(ApiError):
    """That resource version, or that page of a list, is too old to be served."""


class Unsupported(ApiError):
    """The server does not support that method or media type."""


class TooLarge(ApiError):
    """The request is larger than the server takes."""


class Invalid(ApiError):
    """Validation refused the object."""


class TooManyRequests(ApiError):
    """The server sheds load, or an eviction is held up by a disruption budget."""


class ServerFault(ApiError):
    """The server itself is in trouble."""


PASSING = (TooManyRequests, ServerFault, Unreachable)
"""What gets better by itself, if the server does."""

_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "Gone": Gone,
    "Invalid": Invalid,
    "RequestEntityTooLarge": TooLarge,
}

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Unsupported,
    406: Unsupported,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: Unsupported,
    422: Invalid,
    429: TooManyRequests,
}


def error_for(request: str, code: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error for a failed answer: its reason decides, then its code."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except DECODE_ERRORS:
        # A proxy in between answered, not the API server.
        status = Status(message=body[:200].decode(errors="replace").strip())
    if status.code == 0:
        status = msgspec.structs.replace(status, code=code)
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(code)
    if kind is None:
        kind = ServerFault if code >= 500 else ApiError
    # The other form, a date, is for browsers: API servers send seconds.
    delay = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return kind(request, status, delay)
