"""Certificates of the cluster: one P-256 certificate authority signs servers and clients.

Kubeconfigs embed their certificates, so that a copy works anywhere.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VALID = datetime.timedelta(days=365)
# Clocks of containers and hosts differ by seconds; a certificate must already be valid for all of them.
SKEW = datetime.timedelta(minutes=5)
CLIENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "admin": ("admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kube-proxy": ("system:kube-proxy", ()),
    "apiserver-kubelet": ("kube-apiserver-kubelet-client", ("system:masters",)),
    "front-proxy": ("front-proxy-client", ()),
}


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority; `directory` holds its certificate and key as ca.crt and ca.key."""

    directory: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, directory: Path) -> Authority:
        """Create an authority and the key pair for ServiceAccount tokens."""
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("quintet", ())
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            _builder(name, name, key, now + VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(directory, "ca", certificate, key)
        tokens = ec.generate_private_key(ec.SECP256R1())
        _write_private(directory / "sa.key", _key_bytes(tokens))
        public = tokens.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (directory / "sa.pub").write_bytes(public)
        return cls(directory, certificate, key)

    @classmethod
    def load(cls, directory: Path) -> Authority:
        """Load the authority that `create` has written."""
        certificate = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
        key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(directory, certificate, key)

    def issue(
        self,
        file_name: str,
        common_name: str,
        organizations: Sequence[str] = (),
        *,
        hosts: Sequence[str] = (),
        not_after: datetime.datetime | None = None,
    ) -> tuple[Path, Path]:
        """Sign a certificate, a server's if `hosts` are given, else a client's; return cert and key path."""
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        end = not_after or datetime.datetime.now(datetime.UTC) + VALID
        builder = (
            _builder(_name(common_name, organizations), self.certificate.subject, key, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        return _write(self.directory, file_name, builder.sign(self.key, hashes.SHA256()), key)


def write_kubeconfig(path: Path, server: str, ca: Path, certificate: Path, key: Path) -> None:
    """Write a kubeconfig with embedded certificates that only its owner can read; JSON is also YAML."""
    name = "quintet"

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": inline(ca)}}],
        "users": [
            {
                "name": name,
                "user": {"client-certificate-data": inline(certificate), "client-key-data": inline(key)},
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    _write_private(path, (json.dumps(config, indent=2) + "\n").encode())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, end: datetime.datetime
) -> x509.CertificateBuilder:
    # Tests request expired certificates: the start must be before the end.
    begin = min(datetime.datetime.now(datetime.UTC), end) - SKEW
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(
    directory: Path, file_name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> tuple[Path, Path]:
    paths = directory / f"{file_name}.crt", directory / f"{file_name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_private(paths[1], _key_bytes(key))
    return paths


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
