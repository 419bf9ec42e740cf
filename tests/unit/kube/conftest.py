"""Self-signed certificates for tests of configuration and TLS."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def a_pair(
    *, not_after: datetime | None = None, password: bytes | None = None, common_name: str = "loopback"
) -> Pair:
    """Return a self-signed certificate for the loopback address, without optional extensions."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    end = not_after or datetime.now(UTC) + timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(end, datetime.now(UTC)) - timedelta(days=1))
        .not_valid_after(end)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("inner.example")]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how),
    )


@pytest.fixture(scope="session")
def make_pair() -> Callable[..., Pair]:
    return a_pair


@pytest.fixture(scope="session")
def pair() -> Pair:
    return a_pair()
