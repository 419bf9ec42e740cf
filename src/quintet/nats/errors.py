"""Errors of the NATS client, grouped by what the caller can do about them.

NatsError
├── CredentialsError           a key of the Secret is missing or invalid
├── ProtocolError              invalid data from the server, or data that cannot be sent
├── PayloadTooLarge            the message is larger than the server accepts
├── Unresolved                 the host name cannot be resolved
├── ServerUnreachable          no connection, or it was lost before the login was complete
├── TlsFailed                  the certificate, its name or the TLS handshake is invalid
│   └── CertificateExpired     … because a certificate has expired or is not valid yet
├── LoginRefused               the server rejects the credentials
├── NotPermitted               the user has no permission for the subject
├── Disconnected               no connection at the moment; the client is reconnecting
│   └── Closed                 … or no more: the client was closed or has given up
├── Overloaded                 too many bytes are waiting to be sent
├── RequestTimeout             no response in time; the server may have processed the request
├── NoResponders               nobody is subscribed to the subject
│   ├── StreamMissing          … so no stream stores it
│   └── JetStreamUnavailable   … so there is no JetStream, or not for this account
└── JetStreamError             JetStream responded with an error (code, err_code, description)
    ├── StreamNotFound
    ├── ConsumerNotFound
    ├── MessageNotFound
    ├── StreamFull             a limit of the stream, account or server is reached
    ├── NameInUse              the name is in use with another configuration
    ├── SubjectsInUse          another stream has these subjects
    └── NotReady               no leader, or not enough servers: a retry may succeed
"""

from typing import Final


class NatsError(Exception):
    """Base class of all errors of the NATS client."""


class CredentialsError(NatsError):
    """Invalid credentials; `key` is the key of the Secret."""

    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        super().__init__(f"{key}: {problem}")


class ProtocolError(NatsError):
    """Invalid data from the server, or data that cannot be sent."""


class PayloadTooLarge(NatsError):
    """The message is larger than the server accepts."""


class Unresolved(NatsError):
    """The host name cannot be resolved."""


class ServerUnreachable(NatsError):
    """No connection, or it was lost before the login was complete."""


class TlsFailed(NatsError):
    """The certificate, its name or the TLS handshake is invalid."""


class CertificateExpired(TlsFailed):
    """A certificate has expired or is not valid yet."""


class LoginRefused(NatsError):
    """The server rejects the credentials."""


class NotPermitted(NatsError):
    """The user has no permission for the subject."""


class Disconnected(NatsError):
    """There is no connection at the moment; the client is reconnecting."""


class Closed(Disconnected):
    """The client was closed or has given up reconnecting."""


class Overloaded(NatsError):
    """Too many bytes are waiting to be sent."""


class RequestTimeout(NatsError):
    """There was no response in time. The server may have processed the request."""


class NoResponders(NatsError):
    """Nobody is subscribed to the subject."""


class StreamMissing(NoResponders):
    """No stream stores the subject."""


class JetStreamUnavailable(NoResponders):
    """There is no JetStream, or not for this account."""


class JetStreamError(NatsError):
    """JetStream responded with an error."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        self.code = code
        self.err_code = err_code
        self.description = description
        super().__init__(f"{description} (code {code}, error {err_code})")


class StreamNotFound(JetStreamError):
    """The stream does not exist."""


class ConsumerNotFound(JetStreamError):
    """The stream has no consumer of this name."""


class MessageNotFound(JetStreamError):
    """The stream has no message with this sequence number."""


class StreamFull(JetStreamError):
    """A limit of the stream, account or server is reached."""


class NameInUse(JetStreamError):
    """The name is in use with another configuration."""


class SubjectsInUse(JetStreamError):
    """Another stream has these subjects."""


class NotReady(JetStreamError):
    """There is no leader, or there are not enough servers; a retry may succeed."""


_UNAVAILABLE: Final = frozenset({10035, 10039, 10076})
_KINDS: Final[dict[int, type[JetStreamError]]] = {
    **dict.fromkeys((10059,), StreamNotFound),
    **dict.fromkeys((10014, 10149), ConsumerNotFound),
    **dict.fromkeys((10037, 10043), MessageNotFound),
    **dict.fromkeys((10002, 10023, 10028, 10047, 10077, 10122), StreamFull),
    **dict.fromkeys((10013, 10058, 10105, 10148), NameInUse),
    **dict.fromkeys((10065,), SubjectsInUse),
    **dict.fromkeys((10004, 10007, 10008, 10009, 10118, 10119, 10158, 10163, 10167, 10194, 10195), NotReady),
}


def error_for(code: int, err_code: int, description: str) -> NatsError:
    """Return the error for a JetStream error response, chosen by its number."""
    if err_code in _UNAVAILABLE:
        return JetStreamUnavailable(f"{description} (error {err_code})")
    return _KINDS.get(err_code, JetStreamError)(code, err_code, description)
