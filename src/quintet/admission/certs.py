"""Creation and rotation of the webhook server's self-signed certificates. Pure.

An authority (1 year) signs a leaf (7 days). `rotate` replaces them. Every served leaf is valid for every
caBundle in use, because a new authority is trusted before it signs:

    one authority ── a third of its lifetime left ──────────▶ two trusted, the old one signs
    two, old signs ── `lead` has passed since then ─────────▶ two trusted, the new one signs
    two, new signs ── the last leaf of the old has expired ─▶ one authority
"""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks of nodes differ by seconds: a new certificate must already be valid everywhere.
SKEW = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class RotationPolicy:
    """Lifetimes of certificates."""

    authority: timedelta = timedelta(days=365)
    leaf: timedelta = timedelta(days=7)
    lead: timedelta = timedelta(hours=1)
    """Time between trusting a new authority and signing with it."""
    renew_left: float = 1 / 3
    """A certificate is replaced when this share of its lifetime is left."""

    def __post_init__(self) -> None:
        if self.authority * self.renew_left < self.lead + self.leaf:
            raise ValueError("an authority must outlive the last leaf that it signs")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    @property
    def x509(self) -> x509.Certificate:
        """The certificate, decoded."""
        return x509.load_pem_x509_certificate(self.certificate)

    @property
    def issued_at(self) -> datetime:
        """When it was issued, to the second."""
        return self.x509.not_valid_before_utc + SKEW

    @property
    def ends(self) -> datetime:
        """When it expires."""
        return self.x509.not_valid_after_utc

    @property
    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """The key, decoded."""
        key = serialization.load_pem_private_key(self.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the private key is not an elliptic-curve key")
        return key

    def check(self) -> None:
        """Raise `ValueError` unless certificate and key match."""
        if self.x509.public_key() != self.private_key.public_key():
            raise ValueError("certificate and key do not match")


@dataclass(frozen=True, slots=True)
class CertificateState:
    """All certificates of an installation."""

    authorities: tuple[KeyPair, ...]
    """Newest first: one, or two during a rotation."""
    leaf: KeyPair

    @property
    def bundle(self) -> bytes:
        """The CA bundle for the API server."""
        return b"".join(authority.certificate for authority in self.authorities)

    def as_data(self) -> dict[str, bytes]:
        """Return the data of the Secret."""
        newest, *previous = self.authorities
        data = {"ca.crt": self.bundle, "ca.key": newest.key}
        for pair in previous:
            data |= {"previous.crt": pair.certificate, "previous.key": pair.key}
        return data | {"tls.crt": self.leaf.certificate, "tls.key": self.leaf.key}

    @classmethod
    def from_data(cls, data: dict[str, bytes]) -> "CertificateState | None":
        """Return the certificates in a Secret; None if they are missing or unusable."""
        try:
            newest = x509.load_pem_x509_certificates(data["ca.crt"])[0]
            authorities = [KeyPair(newest.public_bytes(serialization.Encoding.PEM), data["ca.key"])]
            if "previous.crt" in data:
                authorities.append(KeyPair(data["previous.crt"], data["previous.key"]))
            state = cls(tuple(authorities), KeyPair(data["tls.crt"], data["tls.key"]))
            for pair in (*state.authorities, state.leaf):
                pair.check()
        except (KeyError, ValueError, TypeError):
            return None
        return state


def rotate(
    state: CertificateState | None, hosts: tuple[str, ...], now: datetime, policy: RotationPolicy
) -> CertificateState:
    """Return the certificates to use now; `state` itself if nothing is due."""
    authorities = _authorities(state, now, policy)
    newest = authorities[0]
    signer = newest if now >= newest.issued_at + policy.lead else authorities[-1]
    if (
        state is not None
        and _is_signed_for(state.leaf, signer, hosts)
        and not _is_due(state.leaf, now, policy)
    ):
        leaf = state.leaf
    else:
        leaf = new_leaf(signer, hosts, now, policy)
    rotated = CertificateState(authorities, leaf)
    return state if state == rotated else rotated


def _authorities(
    state: CertificateState | None, now: datetime, policy: RotationPolicy
) -> tuple[KeyPair, ...]:
    living = tuple(pair for pair in state.authorities if pair.ends > now) if state else ()
    if not living:
        return (new_authority(now, policy),)
    if len(living) == 1 and _is_due(living[0], now, policy):
        return (new_authority(now, policy), *living)
    # The old authority signed until `lead` after the new one was issued; its last leaf has expired by now.
    if len(living) > 1 and now > living[0].issued_at + policy.lead + policy.leaf + SECOND:
        return living[:1]
    return living


def _is_due(pair: KeyPair, now: datetime, policy: RotationPolicy) -> bool:
    return pair.ends - now <= (pair.ends - pair.issued_at) * policy.renew_left


def _is_signed_for(leaf: KeyPair, signer: KeyPair, hosts: tuple[str, ...]) -> bool:
    """Return whether the authority signed the leaf, for exactly these hosts."""
    certificate = leaf.x509
    try:
        certificate.verify_directly_issued_by(signer.x509)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return list(names) == [_general_name(host) for host in hosts]


def new_authority(now: datetime, policy: RotationPolicy) -> KeyPair:
    """Return a new certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Every authority has a unique name, so that clients do not confuse two of them.
    name = _name(f"quintet webhooks {now:%Y-%m-%dT%H:%M:%SZ}")
    builder = (
        _builder(name, name, key, now, now + policy.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return _pair(builder, key, key)


def new_leaf(signer: KeyPair, hosts: tuple[str, ...], now: datetime, policy: RotationPolicy) -> KeyPair:
    """Return a new server certificate for the given DNS names and IP addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    signing_key = signer.private_key
    authority = signer.x509
    end = min(now + policy.leaf, authority.not_valid_after_utc)
    # Host names may exceed the 64 characters of a common name; clients read the alternative names.
    builder = (
        _builder(_name("quintet webhooks"), authority.subject, key, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False
        )
    )
    return _pair(builder, key, signing_key)


def service_hosts(namespace: str, name: str) -> tuple[str, ...]:
    """Return the DNS names of a Service; the API server uses the one that ends in `.svc`."""
    return (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local", f"{name}.{namespace}", name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    # Certificates have whole seconds: round up, so that none expires early.
    whole_end = end.replace(microsecond=0) + (SECOND if end.microsecond else timedelta())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.replace(microsecond=0) - SKEW)
        .not_valid_after(whole_end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _pair(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signing_key: ec.EllipticCurvePrivateKey
) -> KeyPair:
    certificate = builder.sign(signing_key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


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
