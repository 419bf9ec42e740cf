"""Who we are to a NATS server: the keys of a Secret, checked and made ready for the login.

Used by the operator (`from_secret`) and by pods (`from_files`, the same keys as files). Values
never appear in an error or in a `repr`.
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
# An nkey's first byte, and the kind in the next five bits: a seed (S) of a user (U).
_SEED: Final = 18 << 3
_USER: Final = 20 << 3
_MOST: Final = 1 << 20
_BLOCK: Final = re.compile(r"-{3,}BEGIN ([A-Z0-9 ]+)-{3,}\s+(\S+)\s+-{3,}END [A-Z0-9 ]+-{3,}")


@dataclass(frozen=True, slots=True)
class Credentials:
    """One way to log in, and what TLS needs."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    seed: str = field(default="", repr=False)
    jwt: str = field(default="", repr=False)
    ca: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    def login(self, nonce: str) -> dict[str, str]:
        """Return what goes into the login, given what the server wants signed."""
        if self.seed:
            key, public = signer(self.seed)
            signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).decode().rstrip("=")
            known = {"jwt": self.jwt} if self.jwt else {"nkey": public}
            return {**known, "sig": signature}
        if self.token:
            return {"auth_token": self.token}
        return {"user": self.username, "pass": self.password} if self.username else {}


def from_files(folder: str | Path) -> Credentials:
    """Read the files of a mounted Secret."""
    found: dict[str, bytes] = {}
    for key in KEYS:
        path = Path(folder) / key
        try:
            if path.is_file():
                found[key] = path.read_bytes()
        except OSError as error:
            raise CredentialsError(key, f"cannot be read ({error.strerror})") from error
    return from_secret(found)


def from_secret(data: Mapping[str, bytes]) -> Credentials:
    """Take the values of a Secret; keys that are not ours are left alone."""
    text = {
        key: _text(key, data[key])
        for key in ("username", "password", "token", "nkey", "creds")
        if data.get(key)
    }
    ways = [way for way in ("username", "token", "nkey", "creds") if way in text]
    if len(ways) > 1:
        raise CredentialsError(ways[1], f"the Secret has {ways[0]} already; keep one of them")
    if ("username" in text) != ("password" in text):
        missing, given = ("password", "username") if "username" in text else ("username", "password")
        raise CredentialsError(missing, f"is missing beside {given}")
    if bool(data.get("tls.crt")) != bool(data.get("tls.key")):
        missing, given = ("tls.key", "tls.crt") if data.get("tls.crt") else ("tls.crt", "tls.key")
        raise CredentialsError(missing, f"is missing beside {given}")
    if not ways and not any(data.get(key) for key in ("ca.crt", "tls.crt")):
        raise CredentialsError("username", f"the Secret has none of the keys {', '.join(KEYS)}")
    jwt, seed = _creds(text["creds"]) if "creds" in text else ("", text.get("nkey", ""))
    if seed:
        signer(seed, "creds" if jwt else "nkey")
    return Credentials(
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
    """Return the private key of a user's seed, and its public part as NATS writes it."""
    # 8 MB that only those need who log in with a key.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        raw = _decoded(seed)
    except (binascii.Error, ValueError) as error:
        raise CredentialsError(key, "is no nkey seed (it begins with SU)") from error
    if len(raw) != 36 or raw[0] & 0xF8 != _SEED:
        raise CredentialsError(key, "is no nkey seed (it begins with SU)")
    if _checksum(raw[:-2]) != int.from_bytes(raw[-2:], "little"):
        raise CredentialsError(key, "the seed has a typing error (its checksum is wrong)")
    if (raw[0] & 7) << 5 | raw[1] >> 3 != _USER:
        raise CredentialsError(key, "the seed is not one of a user (these begin with SU)")
    private = Ed25519PrivateKey.from_private_bytes(raw[2:34])
    public = bytes([_USER]) + private.public_key().public_bytes_raw()
    whole = public + _checksum(public).to_bytes(2, "little")
    return private, base64.b32encode(whole).decode().rstrip("=")


def _text(key: str, value: bytes) -> str:
    if len(value) > _MOST:
        raise CredentialsError(key, "is larger than a Secret can be")
    try:
        # An editor or `echo` leaves a line break behind the value.
        text = value.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise CredentialsError(key, "is not text") from error
    if not text:
        raise CredentialsError(key, "is empty")
    return text


def _pem(data: Mapping[str, bytes], key: str) -> bytes:
    value = data.get(key) or b""
    if value and b"-----BEGIN " not in value:
        raise CredentialsError(key, "is no PEM (-----BEGIN …)")
    return value


def _creds(text: str) -> tuple[str, str]:
    """Return token and seed of a file as `nsc` writes it."""
    found = {kind.strip(): value for kind, value in _BLOCK.findall(text)}
    jwt, seed = found.get("NATS USER JWT", ""), found.get("USER NKEY SEED", "")
    if not jwt or not seed:
        raise CredentialsError("creds", "needs a block NATS USER JWT and a block USER NKEY SEED")
    return jwt, seed


def _decoded(text: str) -> bytes:
    return base64.b32decode(text.strip().encode() + b"=" * (-len(text.strip()) % 8))


def _checksum(data: bytes) -> int:
    """CRC-16/XMODEM, as nkeys use it."""
    return binascii.crc_hqx(data, 0)
