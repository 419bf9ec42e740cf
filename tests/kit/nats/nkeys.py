"""Keys and tokens as `nsc` creates them, for servers with nkey or operator authentication."""

import base64
import binascii
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PREFIXES = {"U": 20 << 3, "A": 0, "O": 14 << 3}


class Key:
    """A key pair of a user (U), an account (A) or an operator (O)."""

    def __init__(self, kind: str) -> None:
        self._private = Ed25519PrivateKey.generate()
        self._prefix = _PREFIXES[kind]

    @property
    def public(self) -> str:
        return _text(bytes([self._prefix]) + self._private.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        first = 18 << 3 | self._prefix >> 5
        second = (self._prefix & 31) << 3
        return _text(bytes([first, second]) + self._private.private_bytes_raw())

    def token(self, subject: str, name: str, claims: dict[str, Any], **more: Any) -> str:
        """Return a JWT about a subject, signed by this key."""
        body = {
            "iat": 1,
            "iss": self.public,
            "jti": name,
            "name": name,
            "sub": subject,
            "nats": claims,
            **more,
        }
        signed = f"{_json({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_json(body)}"
        return f"{signed}.{_base64(self._private.sign(signed.encode()))}"


class Operator:
    """A NATS operator with one account that has JetStream, and its users."""

    def __init__(self) -> None:
        self._operator, self._account, self._system = Key("O"), Key("A"), Key("A")

    def config(self) -> dict[str, Any]:
        """Return the server configuration."""
        limits = {
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True,
            "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
        }  # fmt: skip
        account = {"limits": limits, "type": "account", "version": 2}
        nothing = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), 0)
        system = {"limits": {**limits, **nothing}, "type": "account", "version": 2}
        return {
            "operator": self._operator.token(self._operator.public, "op", {"type": "operator", "version": 2}),
            "resolver": "MEMORY",
            "resolver_preload": {
                self._account.public: self._operator.token(self._account.public, "shop", account),
                self._system.public: self._operator.token(self._system.public, "system", system),
            },
            "system_account": self._system.public,
        }

    def creds(self, **claims: Any) -> bytes:
        """Return the credentials file of a new user."""
        user = Key("U")
        facts = {"subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2}
        jwt = self._account.token(user.public, "somebody", facts, **claims)
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            "*** keep it secret ***\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        ).encode()


def _text(raw: bytes) -> str:
    whole = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(whole).decode().rstrip("=")


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _json(value: Any) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())
