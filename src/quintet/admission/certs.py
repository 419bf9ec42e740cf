"""Our own certificates for the webhook server: how they are made and when they change. Pure.

An authority (1 year) signs a leaf (7 days); `advanced` is the whole policy. The steps of an
authority's replacement, each leaving all that is served and all that is trusted compatible:

    one authority ── a third of its life left ─────────────▶ two trusted, the old one signs
    two, old signs ── everybody trusts both (`lead` passed) ─▶ two trusted, the new one signs
    two, new signs ── the last leaf of the old has run out ──▶ one authority

`sources` keeps the state and hands it out; `registration` tells the API server whom to trust.
"""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks of nodes differ by seconds; a certificate must not be "from the future".
SKEW = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things last."""

    authority: timedelta = timedelta(days=365)
    leaf: timedelta = timedelta(days=7)
    lead: timedelta = timedelta(hours=1)
    """From the day that a new authority is trusted until it signs."""
    renew_left: float = 1 / 3
    """A certificate is replaced when this share of its life is left."""

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
    def issued(self) -> datetime:
        """When it was made, to the second."""
        return self.x509.not_valid_before_utc + SKEW

    @property
    def ends(self) -> datetime:
        """When it runs out."""
        return self.x509.not_valid_after_utc

    @property
    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """The key, decoded."""
        key = serialization.load_pem_private_key(self.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not one of ours")
        return key

    def check(self) -> None:
        """Raise `ValueError` unless certificate and key belong together."""
        if self.x509.public_key() != self.private_key.public_key():
            raise ValueError("certificate and key do not belong together")


@dataclass(frozen=True, slots=True)
class State:
    """All certificates of an installation."""

    authorities: tuple[KeyPair, ...]
    """Newest first: one, or two while one replaces the other."""
    leaf: KeyPair

    @property
    def bundle(self) -> bytes:
        """Whom the API server has to trust."""
        return b"".join(authority.certificate for authority in self.authorities)

    def as_data(self) -> dict[str, bytes]:
        """As a Secret holds it."""
        newest, *previous = self.authorities
        data = {"ca.crt": self.bundle, "ca.key": newest.key}
        for pair in previous:
            data |= {"previous.crt": pair.certificate, "previous.key": pair.key}
        return data | {"tls.crt": self.leaf.certificate, "tls.key": self.leaf.key}

    @classmethod
    def from_data(cls, data: dict[str, bytes]) -> "State | None":
        """The state in a Secret; None if there is none that could be used."""
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


def advanced(state: State | None, hosts: tuple[str, ...], now: datetime, policy: Policy) -> State:
    """What the state ought to be now; the same one if it is right."""
    authorities = _authorities(state, now, policy)
    newest = authorities[0]
    signer = newest if now >= newest.issued + policy.lead else authorities[-1]
    if state is not None and _serves(state.leaf, signer, hosts) and not _due(state.leaf, now, policy):
        leaf = state.leaf
    else:
        leaf = new_leaf(signer, hosts, now, policy)
    wanted = State(authorities, leaf)
    return state if state == wanted else wanted


def _authorities(state: State | None, now: datetime, policy: Policy) -> tuple[KeyPair, ...]:
    living = tuple(pair for pair in state.authorities if pair.ends > now) if state else ()
    if not living:
        return (new_authority(now, policy),)
    if len(living) == 1 and _due(living[0], now, policy):
        return (new_authority(now, policy), *living)
    # The old one signed until `lead` after the new one was made, for a leaf's life at most.
    if len(living) > 1 and now > living[0].issued + policy.lead + policy.leaf + SECOND:
        return living[:1]
    return living


def _due(pair: KeyPair, now: datetime, policy: Policy) -> bool:
    return pair.ends - now <= (pair.ends - pair.issued) * policy.renew_left


def _serves(leaf: KeyPair, signer: KeyPair, hosts: tuple[str, ...]) -> bool:
    """Whether a leaf is of that authority and for those hosts."""
    certificate = leaf.x509
    try:
        certificate.verify_directly_issued_by(signer.x509)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return list(names) == [_general_name(host) for host in hosts]


def new_authority(now: datetime, policy: Policy) -> KeyPair:
    """A certificate that signs others."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Each has a name of its own, so that nobody takes the one for the other by name.
    name = _name(f"quintet webhooks {now:%Y-%m-%dT%H:%M:%SZ}")
    builder = (
        _builder(name, name, key, now, now + policy.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return _pair(builder, key, key)


def new_leaf(signer: KeyPair, hosts: tuple[str, ...], now: datetime, policy: Policy) -> KeyPair:
    """A server certificate for the given DNS names and IP addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    signing_key = signer.private_key
    authority = signer.x509
    end = min(now + policy.leaf, authority.not_valid_after_utc)
    # A common name holds 64 characters at most, a host name more; clients read the other one.
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
    """The names of a Service; the API server asks for the one that ends in `.svc`."""
    return (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local", f"{name}.{namespace}", name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    # Certificates know whole seconds; rounding must not make a life shorter.
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
