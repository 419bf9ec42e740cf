"""Credentials for a NATS server, read from the keys of a Secret and validated.

The operator reads the Secret itself (`from_secret`), pods read the mounted files (`from_files`). Values never
appear in an error or in a `repr`.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quintet.nats.errors import CredentialsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEYS: Final = ("username", "password", "token", "nkey", "creds", "ca.crt", "tls.crt", "tls.key")
# The first byte of an nkey is its prefix (seed), the next five bits are its type (user).
_SEED: Final = 18 << 3
_USER: Final = 20 << 3
_MAX_BYTES: Final = 1 << 20
_BLOCK: Final = re.compile(r"-{3,}BEGIN ([A-Z0-9 ]+)-{3,}\s+(\S+)\s+-{3,}END [A-Z0-9 ]+-{3,}")


@dataclass(frozen=True, slots=True)
class NatsCredentials:
    """Login and TLS material."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    seed: str = field(default="", repr=False)
    jwt: str = field(default="", repr=False)
    ca: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    def login(self, nonce: str) -> dict[str, str]:
        """Return the login fields of CONNECT; with an nkey or JWT, the nonce of the server is signed."""
        if self.seed:
            key, public = signer(self.seed)
            signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).decode().rstrip("=")
            identity = {"jwt": self.jwt} if self.jwt else {"nkey": public}
            return {**identity, "sig": signature}
        if self.token:
            return {"auth_token": self.token}
        return {"user": self.username, "pass": self.password} if self.username else {}


def from_files(folder: str | Path) -> NatsCredentials:
    """Return the credentials in the files of a mounted Secret."""
    found: dict[str, bytes] = {}
    for key in KEYS:
        path = Path(folder) / key
        try:
            if path.is_file():
                found[key] = path.read_bytes()
        except OSError as error:
            raise CredentialsError(key, f"cannot be read ({error.strerror})") from error
    return from_secret(found)


def from_secret(data: Mapping[str, bytes]) -> NatsCredentials:
    """Return the credentials of a Secret; unknown keys are ignored."""
    text = {
        key: _text(key, data[key])
        for key in ("username", "password", "token", "nkey", "creds")
        if data.get(key)
    }
    methods = [key for key in ("username", "token", "nkey", "creds") if key in text]
    if len(methods) > 1:
        raise CredentialsError(methods[1], f"the Secret also has {methods[0]}; keep one of them")
    if ("username" in text) != ("password" in text):
        missing, given = ("password", "username") if "username" in text else ("username", "password")
        raise CredentialsError(missing, f"is missing; {given} requires it")
    if bool(data.get("tls.crt")) != bool(data.get("tls.key")):
        missing, given = ("tls.key", "tls.crt") if data.get("tls.crt") else ("tls.crt", "tls.key")
        raise CredentialsError(missing, f"is missing; {given} requires it")
    if not methods and not any(data.get(key) for key in ("ca.crt", "tls.crt")):
        raise CredentialsError("username", f"the Secret has none of the keys {', '.join(KEYS)}")
    jwt, seed = _creds(text["creds"]) if "creds" in text else ("", text.get("nkey", ""))
    if seed:
        signer(seed, "creds" if jwt else "nkey")
    return NatsCredentials(
        username=text.get("username", ""),
        password=text.get("password", ""),
        token=text.get("token", ""),
        seed=seed,
        jwt=jwt,
        ca=_pem(data, "ca.crt"),
        certificate=_pem(data, "tls.crt"),
        key=_pem(data, "tls.key"),
    )


def signer(seed: str, key: str = "nkey") -> "tuple[Ed25519PrivateKey, str]":
    """Return the private key of a user seed, and its public key in nkey encoding."""
    # Imported here because it takes 8 MB, and only logins with a key need it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        raw = _decode_base32(seed)
    except (binascii.Error, ValueError) as error:
        raise CredentialsError(key, "is not an nkey seed of a user (these begin with SU)") from error
    if len(raw) != 36 or raw[0] & 0xF8 != _SEED:
        raise CredentialsError(key, "is not an nkey seed of a user (these begin with SU)")
    if _checksum(raw[:-2]) != int.from_bytes(raw[-2:], "little"):
        raise CredentialsError(key, "the checksum of the seed is wrong: check it for typing errors")
    if (raw[0] & 7) << 5 | raw[1] >> 3 != _USER:
        raise CredentialsError(key, "is not the seed of a user (these begin with SU)")
    private = Ed25519PrivateKey.from_private_bytes(raw[2:34])
    public = bytes([_USER]) + private.public_key().public_bytes_raw()
    whole = public + _checksum(public).to_bytes(2, "little")
    return private, base64.b32encode(whole).decode().rstrip("=")


def _text(key: str, value: bytes) -> str:
    if len(value) > _MAX_BYTES:
        raise CredentialsError(key, "is larger than a Secret can be")
    try:
        # Editors and `echo` append a line break.
        text = value.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise CredentialsError(key, "is not text") from error
    if not text:
        raise CredentialsError(key, "is empty")
    return text


def _pem(data: Mapping[str, bytes], key: str) -> bytes:
    value = data.get(key) or b""
    if value and b"-----BEGIN " not in value:
        raise CredentialsError(key, "is not PEM (-----BEGIN …)")
    return value


def _creds(text: str) -> tuple[str, str]:
    """Return JWT and seed of a creds file as `nsc` writes it."""
    found = {kind.strip(): value for kind, value in _BLOCK.findall(text)}
    jwt, seed = found.get("NATS USER JWT", ""), found.get("USER NKEY SEED", "")
    if not jwt or not seed:
        raise CredentialsError("creds", "must contain a NATS USER JWT block and a USER NKEY SEED block")
    return jwt, seed


def _decode_base32(text: str) -> bytes:
    return base64.b32decode(text.strip().encode() + b"=" * (-len(text.strip()) % 8))


def _checksum(data: bytes) -> int:
    """Return the CRC-16/XMODEM that nkeys use."""
    return binascii.crc_hqx(data, 0)
