"""Errors of the Kubernetes client, as one tree.

    KubeError
    ├── ConfigError            the kubeconfig or the in-cluster files are invalid
    ├── WriteFenced            not the leader any more: the write was not sent
    ├── Unreachable            no response: connection refused, reset or lost
    │   ├── DeadlineExceeded   no response in time
    │   └── UntrustedServer    its certificate is not trusted
    ├── UnexpectedResponse     success, but the body does not decode
    └── ApiError               the server responded with a failure Status
        ├── BadRequest         400
        ├── Unauthorized       401
        ├── Forbidden          403  (.namespace_terminating)
        ├── NotFound           404
        ├── Conflict           409  the object has changed, or a precondition failed
        │   └── AlreadyExists       the name is in use
        ├── Gone               410  the resource version or continue token has expired
        ├── Unsupported        405, 406, 415  method or media type not supported
        ├── TooLarge           413
        ├── Invalid            422  the object failed validation (.causes)
        ├── TooManyRequests    429  (.retry_after)
        └── ServerFault        5xx  (.retry_after)

`error_for` chooses the class by status code and machine-readable reason, never by the
message text. The message of each error names the request.
"""

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.meta import Struct
from quintet.apis.text import parse_number


class Cause(Struct, frozen=True):
    """One field-level cause inside a failure Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True):
    """The details of a failure Status."""

    kind: str = ""
    name: str = ""
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: int = 0


class Status(Struct, frozen=True):
    """The response body of a failed request."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class KubeError(Exception):
    """Base class of all errors of the Kubernetes client."""

    retry_after: float | None = None
    """Seconds to wait before a retry, if the server sent them."""


class ConfigError(KubeError):
    """Invalid configuration; `next_step` says what to do about it."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(f"{message}: {next_step}")
        self.message = message
        self.next_step = next_step


class WriteFenced(KubeError):
    """A write was not sent because this process is not the leader any more."""


class Unreachable(KubeError):
    """There was no response. The server may have carried out a write."""


class DeadlineExceeded(Unreachable):
    """There was no response in time."""


class UntrustedServer(Unreachable):
    """The certificate of the server is not signed by the configured CA."""


class UnexpectedResponse(KubeError):
    """The response does not decode: not an API server, or an object with other fields."""


class ApiError(KubeError):
    """The server responded with a failure."""

    def __init__(self, request: str, status: Status, retry_after: float | None = None) -> None:
        super().__init__(f"{request}: {status.code} {status.reason}: {status.message}")
        self.request = request
        self.status = status
        self._details = status.details or StatusDetails()
        self.retry_after = retry_after or float(self._details.retry_after_seconds) or None

    @property
    def message(self) -> str:
        """The message of the server."""
        return self.status.message

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The field-level causes; empty if there are none."""
        return self._details.causes or ()


class BadRequest(ApiError):
    """The server could not understand the request."""


class Unauthorized(ApiError):
    """The server does not accept our credentials."""

    expiry: str | None = None
    """A possible reason: the client certificate has expired."""


class Forbidden(ApiError):
    """We do not have permission."""

    @property
    def namespace_terminating(self) -> bool:
        """Whether the reason is that the namespace is being deleted."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)


class NotFound(ApiError):
    """The object or its type does not exist."""


class Conflict(ApiError):
    """The object has changed, or a precondition (uid, resourceVersion) failed."""


class AlreadyExists(Conflict):
    """An object with that name exists."""


class Gone(ApiError):
    """The resource version or continue token has expired."""


class Unsupported(ApiError):
    """The server does not support that method or media type."""


class TooLarge(ApiError):
    """The request is larger than the server accepts."""


class Invalid(ApiError):
    """The object failed validation."""


class TooManyRequests(ApiError):
    """The server limits the rate, or a PodDisruptionBudget forbids an eviction."""


class ServerFault(ApiError):
    """An internal error of the server."""


TRANSIENT = (TooManyRequests, ServerFault, Unreachable)
"""Errors after which a retry can succeed."""

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
    """Return the error for a failed response, by its reason, then by its status code."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except DECODE_ERRORS:
        # The response of a proxy, not of the API server.
        status = Status(message=body[:200].decode(errors="replace").strip())
    if status.code == 0:
        status = msgspec.structs.replace(status, code=code)
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(code)
    if kind is None:
        kind = ServerFault if code >= 500 else ApiError
    # API servers send seconds, not a date.
    delay = parse_number(retry_after or "")
    return kind(request, status, delay)
