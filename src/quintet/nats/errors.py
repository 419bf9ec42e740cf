"""Everything that can go wrong between us and NATS, by what the caller can do about it.

NatsError
├── CredentialsError           a key of the Secret is missing or not what it should be
├── ProtocolError              the other side speaks no NATS
├── PayloadTooLarge            more than the server takes in one message
├── Unresolved                 the host has no address
├── Unreachable                no connection, or it ended before the login was through
├── TlsFailed                  no trust
│   └── CertificateExpired     … because a certificate is too old, or not valid yet
├── LoginRefused               the server does not know us, or no longer
├── NotPermitted               the server knows us, and this subject is not for us
├── Disconnected               there is no connection now; it is being made again
│   └── Closed                 … or never again: closed by us, or given up
├── Overloaded                 more waits to be sent than we keep
├── RequestTimeout             no answer in time; whether it was done is unknown
├── NoResponders               nobody listens on this subject
│   ├── StreamMissing          … so no stream keeps it
│   └── JetStreamUnavailable   … so there is no JetStream, or it is not for this account
└── ApiError                   JetStream answered with an error (code, err_code, description)
    ├── StreamNotFound
    ├── ConsumerNotFound
    ├── MessageNotFound
    ├── StreamFull             a limit of stream, account or server is reached
    ├── NameInUse              there is one of this name with other settings
    ├── SubjectsInUse          another stream listens on these subjects already
    └── NotReady               no leader, or not enough servers: later it may work
"""

from typing import Final


class NatsError(Exception):
    """The root of the tree."""


class CredentialsError(NatsError):
    """Credentials that cannot be used; `key` names the key of the Secret."""

    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        super().__init__(f"{key}: {problem}")


class ProtocolError(NatsError):
    """The other side speaks no NATS."""


class PayloadTooLarge(NatsError):
    """More than the server takes in one message."""


class Unresolved(NatsError):
    """The host has no address."""


class Unreachable(NatsError):
    """No connection, or it ended before the login was through."""


class TlsFailed(NatsError):
    """No trust: the certificate, its name, or TLS itself."""


class CertificateExpired(TlsFailed):
    """A certificate is too old, or not valid yet."""


class LoginRefused(NatsError):
    """The server does not know us, or no longer."""


class NotPermitted(NatsError):
    """The server knows us, and this subject is not for us."""


class Disconnected(NatsError):
    """There is no connection now. It is being made again."""


class Closed(Disconnected):
    """There is no connection, and there will be none: closed by us, or given up."""


class Overloaded(NatsError):
    """More waits to be sent than we keep."""


class RequestTimeout(NatsError):
    """No answer in time. Whether the request was done is unknown."""


class NoResponders(NatsError):
    """Nobody listens on this subject."""


class StreamMissing(NoResponders):
    """No stream keeps this subject."""


class JetStreamUnavailable(NoResponders):
    """There is no JetStream, or it is not for this account."""


class ApiError(NatsError):
    """JetStream answered with an error."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        self.code = code
        self.err_code = err_code
        self.description = description
        super().__init__(f"{description} (code {code}, error {err_code})")


class StreamNotFound(ApiError):
    """No stream of this name."""


class ConsumerNotFound(ApiError):
    """No consumer of this name on this stream."""


class MessageNotFound(ApiError):
    """No message with this sequence number."""


class StreamFull(ApiError):
    """A limit of stream, account or server is reached."""


class NameInUse(ApiError):
    """There is one of this name with other settings."""


class SubjectsInUse(ApiError):
    """Another stream listens on these subjects already."""


class NotReady(ApiError):
    """No leader, or not enough servers. Later it may work."""


_UNAVAILABLE: Final = frozenset({10035, 10039, 10076})
_KINDS: Final[dict[int, type[ApiError]]] = {
    **dict.fromkeys((10059,), StreamNotFound),
    **dict.fromkeys((10014, 10149), ConsumerNotFound),
    **dict.fromkeys((10037, 10043), MessageNotFound),
    **dict.fromkeys((10002, 10023, 10028, 10047, 10077, 10122), StreamFull),
    **dict.fromkeys((10013, 10058, 10105, 10148), NameInUse),
    **dict.fromkeys((10065,), SubjectsInUse),
    **dict.fromkeys((10004, 10007, 10008, 10009, 10118, 10119, 10158, 10163, 10167, 10194, 10195), NotReady),
}


def error_for(code: int, err_code: int, description: str) -> NatsError:
    """Return the error that an answer of JetStream means, chosen by number, never by text."""
    if err_code in _UNAVAILABLE:
        return JetStreamUnavailable(f"{description} (error {err_code})")
    return _KINDS.get(err_code, ApiError)(code, err_code, description)
