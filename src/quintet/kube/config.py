"""Which API server, trusted how, and as whom: kubeconfig files and in-cluster files.

Called by the command line and by tests; `transport` uses the result. Order of search:
an explicit path, `$KUBECONFIG` (several files merge), the pod's own service account,
`~/.kube/config`. The file format is `kubeconfig`, what proves who we are `credentials`.
"""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from quintet.kube.credentials import (
    EXEC_API,
    Anonymous,
    Credentials,
    ExecPlugin,
    FileToken,
    Plugin,
    StaticHeader,
)
from quintet.kube.errors import ConfigError
from quintet.kube.kubeconfig import ExecSection, Kubeconfig, UserSection

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One cluster and one identity."""

    server: str
    credentials: Credentials = field(default_factory=Anonymous)
    ca_data: bytes | None = None
    client_cert: bytes | None = None
    client_key: bytes | None = field(default=None, repr=False)
    insecure: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    namespace: str = "default"
    source: str = ""

    def __post_init__(self) -> None:
        _check_url(self.server, self.source, "server", ("https", "http"))
        if self.proxy_url:
            _check_url(self.proxy_url, self.source, "proxy-url", ("http", "https"))
        if bool(self.client_cert) != bool(self.client_key):
            there, missing = ("certificate", "key") if self.client_cert else ("key", "certificate")
            raise ConfigError(
                f"{self.source}: there is a client {there} but no client {missing}",
                "fetch new credentials for this cluster",
            )

    def ssl_context(self) -> ssl.SSLContext:
        """TLS as this configuration wants it."""
        context = self._trusting_context()
        # On by default since Python 3.13, but the CAs of many clusters lack what it asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_cert and self.client_key:
            self._load_client_certificate(context, self.client_cert, self.client_key)
        return context

    def _trusting_context(self) -> ssl.SSLContext:
        # Only PEM blocks count, and they are ASCII: comments between them may be anything.
        authority = self.ca_data.decode("ascii", "ignore") if self.ca_data else None
        try:
            return ssl.create_default_context(cadata=authority)
        except ssl.SSLError:
            raise ConfigError(
                f"{self.source}: the certificate authority is not a PEM certificate",
                "fetch the file anew from your cluster",
            ) from None

    def _load_client_certificate(self, context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        # The ssl module reads certificates from files only.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            try:
                # A password, though none, because OpenSSL would ask on the terminal for one.
                context.load_cert_chain(file.name, password="")
            except ssl.SSLError as error:
                reason = (error.reason or "not PEM").lower().replace("_", " ")
                raise ConfigError(
                    f"{self.source}: the client certificate and key cannot be used ({reason})",
                    "fetch new credentials for this cluster",
                ) from None

    def expiry_problem(self, now: datetime | None = None) -> str | None:
        """Why the server may have refused us: the client certificate's dates, in words."""
        if not self.client_cert:
            return None
        from cryptography import x509

        try:
            end = x509.load_pem_x509_certificate(self.client_cert).not_valid_after_utc
        except ValueError:
            return f"the client certificate in {self.source} cannot be read"
        if end < (now or datetime.now(UTC)):  # noqa: TID251 - a diagnosis for people, not a decision
            return f"the client certificate in {self.source} expired on {end:%Y-%m-%d %H:%M} UTC"
        return None


def _check_url(text: str, source: str, what: str, schemes: tuple[str, ...]) -> None:
    try:
        url = urlsplit(text)
        good = url.scheme in schemes and bool(url.hostname) and url.port != 0
    except ValueError:
        good = False
    if not good:
        raise ConfigError(
            f"{source}: {what} {text!r} is no address", f"write it as `{what}: {schemes[0]}://…`"
        )


def load(
    path: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """The configuration a user would expect to be used."""
    if path:
        return from_kubeconfig([Path(path)], context)
    if environ.get("KUBECONFIG"):
        files = [Path(part) for part in environ["KUBECONFIG"].split(os.pathsep) if part]
        return from_kubeconfig(files, context)
    if in_pod(environ, service_account) and not context:
        return in_cluster(environ, service_account)
    default = Path(environ.get("HOME", "/")) / ".kube" / "config"
    if os.path.exists(default):
        return from_kubeconfig([default], context)
    raise ConfigError(
        "no cluster is configured",
        "pass --kubeconfig, set KUBECONFIG, or run `quintet up` for a local cluster",
    )


def in_pod(environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> bool:
    """Whether this process runs in a pod and may speak as its service account."""
    return "KUBERNETES_SERVICE_HOST" in environ and service_account.is_dir()


def in_cluster(environ: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """The service account of the pod that we run in; its token is read again as it is renewed."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:
        host = f"[{host}]"
    try:
        authority = (directory / "ca.crt").read_bytes()
        namespace = (directory / "namespace").read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"the service account files cannot be read ({error})",
            "set automountServiceAccountToken on the pod",
        ) from error
    return ClusterConfig(
        server=f"https://{host}:{port}",
        credentials=FileToken(directory / "token"),
        ca_data=authority,
        namespace=namespace or "default",
        source=str(directory),
    )


def from_kubeconfig(files: list[Path], context: str | None = None) -> ClusterConfig:
    """One context of one or several kubeconfig files."""
    kubeconfig = Kubeconfig(files)
    source = kubeconfig.source
    chosen = kubeconfig.context(context)
    cluster, user = kubeconfig.cluster(chosen), kubeconfig.user(chosen)
    authority = cluster.certificate_authority_data, cluster.certificate_authority
    certificate = user.client_certificate_data, user.client_certificate
    key = user.client_key_data, user.client_key
    config = ClusterConfig(
        server=cluster.server or "",
        ca_data=_material("certificate-authority", *authority, source),
        client_cert=_material("client-certificate", *certificate, source),
        client_key=_material("client-key", *key, source),
        insecure=bool(cluster.insecure_skip_tls_verify),
        tls_server_name=cluster.tls_server_name or None,
        proxy_url=cluster.proxy_url or None,
        namespace=chosen.namespace or "default",
        source=source,
    )
    return replace(config, credentials=_credentials(user, config))


def _material(what: str, inline: str | None, path: str | None, source: str) -> bytes | None:
    """Certificate or key, inline (base64) or by path."""
    if inline:
        try:
            return base64.b64decode("".join(inline.split()), validate=True)
        except ValueError:
            raise ConfigError(
                f"{source}: {what}-data is not base64", "fetch the file anew from your cluster"
            ) from None
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise ConfigError(
            f"{source}: {what} {path} cannot be read ({error.strerror})", "check the path"
        ) from error


def _credentials(user: UserSection, config: ClusterConfig) -> Credentials:
    source = config.source
    if user.as_:
        # To ignore it would be to act with more rights than the user meant to use.
        raise ConfigError(f"{source}: impersonation (`as`) is not supported", "remove `as` from the user")
    if user.auth_provider:
        raise ConfigError(
            f"{source}: auth-provider is no longer supported by Kubernetes",
            "use an exec credential plugin instead",
        )
    if user.token_file:
        return FileToken(Path(user.token_file))
    if user.token:
        return StaticHeader(f"Bearer {user.token.strip()}")
    if user.username:
        pair = f"{user.username}:{user.password or ''}".encode()
        return StaticHeader(f"Basic {base64.b64encode(pair).decode()}")
    if user.exec:
        return ExecPlugin(_plugin(user.exec, config))
    return Anonymous()


def _plugin(section: ExecSection, config: ClusterConfig) -> Plugin:
    if not section.command:
        raise ConfigError(f"{config.source}: exec has no command", "name the credential plugin to run")
    return Plugin(
        argv=(section.command, *(section.args or ())),
        environ={variable.name: variable.value for variable in section.env or ()},
        api_version=section.api_version or EXEC_API,
        hint=section.install_hint or f"install {section.command}",
        cluster=_cluster_info(config) if section.provide_cluster_info else None,
    )


def _cluster_info(config: ClusterConfig) -> dict[str, Any]:
    """What a plugin may want to know of the cluster, in the words of ExecCredential."""
    authority = base64.b64encode(config.ca_data).decode() if config.ca_data else None
    known = {
        "server": config.server,
        "certificate-authority-data": authority,
        "insecure-skip-tls-verify": config.insecure or None,
        "tls-server-name": config.tls_server_name,
        "proxy-url": config.proxy_url,
    }
    return {name: value for name, value in known.items() if value is not None}
