"""The configuration of a cluster connection: server, CA and credentials.

Search order: an explicit path, `$KUBECONFIG` (several files are merged), the ServiceAccount of the pod,
`~/.kube/config`.
"""

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
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
from quintet.kube.impersonation import ImpersonatedUser
from quintet.kube.kubeconfig import ExecSection, Kubeconfig, UserSection
from quintet.kube.proxies import find_proxy

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One cluster and one user."""

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
    impersonation: tuple[tuple[str, str], ...] = ()
    """The headers of the impersonated user, from `as` in the kubeconfig or `--as`."""
    reload: "Callable[[], ClusterConfig] | None" = field(default=None, repr=False, compare=False)
    """Reads the same source again; None if it cannot change."""

    def __post_init__(self) -> None:
        _check_url(self.server, self.source, "server", ("https", "http"))
        if self.proxy_url:
            _check_url(self.proxy_url, self.source, "proxy-url", ("http", "https"))
        if bool(self.client_cert) != bool(self.client_key):
            given, missing = ("certificate", "key") if self.client_cert else ("key", "certificate")
            raise ConfigError(
                f"{self.source}: there is a client {given} but no client {missing}",
                "get new credentials for this cluster",
            )

    def impersonate(self, user: ImpersonatedUser) -> "ClusterConfig":
        """Return a configuration that impersonates this user, if one is named."""
        headers = user.headers("the command line")
        return replace(self, impersonation=headers) if headers else self

    @property
    def certificates(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The CA, the client certificate and its key, which may be replaced while the process runs."""
        return self.ca_data, self.client_cert, self.client_key

    def ssl_context(self) -> ssl.SSLContext:
        """Return a TLS context with the CA and the client certificate."""
        context = self._ca_context()
        # Python 3.13 sets this flag, but the CAs of many clusters lack the extensions that it requires.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_cert and self.client_key:
            self._load_client_certificate(context, self.client_cert, self.client_key)
        return context

    def _ca_context(self) -> ssl.SSLContext:
        # PEM blocks are ASCII; comments between them may have any encoding.
        authority = self.ca_data.decode("ascii", "ignore") if self.ca_data else None
        try:
            return ssl.create_default_context(cadata=authority)
        except ssl.SSLError:
            raise ConfigError(
                f"{self.source}: the certificate authority is not a PEM certificate",
                "download the kubeconfig of the cluster again",
            ) from None

    def _load_client_certificate(self, context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        # The ssl module reads certificates only from files.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            try:
                # With an empty password, OpenSSL does not prompt for one on the terminal.
                context.load_cert_chain(file.name, password="")
            except ssl.SSLError as error:
                reason = (error.reason or "not PEM").lower().replace("_", " ")
                raise ConfigError(
                    f"{self.source}: the client certificate and key cannot be used ({reason})",
                    "get new credentials for this cluster",
                ) from None

    def expiry_problem(self, now: datetime | None = None) -> str | None:
        """Return a message if the client certificate has expired, as a possible reason for a 401."""
        if not self.client_cert:
            return None
        from cryptography import x509

        try:
            end = x509.load_pem_x509_certificate(self.client_cert).not_valid_after_utc
        except ValueError:
            return f"the client certificate in {self.source} cannot be read"
        if end < (now or datetime.now(UTC)):  # noqa: TID251 - for a message only
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
            f"{source}: {what} {text!r} is not a valid URL", f"write it as `{what}: {schemes[0]}://…`"
        )


def load(
    path: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Return the configuration of the first source in the search order."""
    if path:
        return from_kubeconfig([Path(path)], context, environ)
    if environ.get("KUBECONFIG"):
        files = [Path(part) for part in environ["KUBECONFIG"].split(os.pathsep) if part]
        return from_kubeconfig(files, context, environ)
    if in_pod(environ, service_account) and not context:
        return in_cluster(environ, service_account)
    default = Path(environ.get("HOME", "/")) / ".kube" / "config"
    if os.path.exists(default):
        return from_kubeconfig([default], context, environ)
    raise ConfigError(
        "no cluster is configured",
        "pass --kubeconfig, set KUBECONFIG, or run `quintet up` for a local cluster",
    )


def in_pod(environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> bool:
    """Return whether this process runs in a pod with a ServiceAccount token."""
    return "KUBERNETES_SERVICE_HOST" in environ and service_account.is_dir()


def in_cluster(environ: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """Return the configuration of the pod's ServiceAccount, whose token file is renewed by the kubelet."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:
        host = f"[{host}]"
    try:
        authority = (directory / "ca.crt").read_bytes()
        namespace = (directory / "namespace").read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"cannot read the ServiceAccount files ({error})",
            "set automountServiceAccountToken: true on the pod",
        ) from error
    server = f"https://{host}:{port}"
    return ClusterConfig(
        server=server,
        credentials=FileToken(directory / "token"),
        ca_data=authority,
        namespace=namespace or "default",
        source=str(directory),
        proxy_url=find_proxy(server, environ),
        reload=partial(in_cluster, environ, directory),
    )


def from_kubeconfig(
    files: list[Path], context: str | None = None, environ: Mapping[str, str] = os.environ
) -> ClusterConfig:
    """Return the configuration of one context; without a name, of the current context."""
    kubeconfig = Kubeconfig(files)
    source = kubeconfig.source
    context = context or kubeconfig.current  # also if somebody chooses another one later
    chosen = kubeconfig.context(context)
    cluster, user = kubeconfig.cluster(chosen), kubeconfig.user(chosen)
    authority = cluster.certificate_authority_data, cluster.certificate_authority
    certificate = user.client_certificate_data, user.client_certificate
    key = user.client_key_data, user.client_key
    config = ClusterConfig(
        server=(server := cluster.server or ""),
        ca_data=_read_pem("certificate-authority", *authority, source),
        client_cert=_read_pem("client-certificate", *certificate, source),
        client_key=_read_pem("client-key", *key, source),
        insecure=bool(cluster.insecure_skip_tls_verify),
        tls_server_name=cluster.tls_server_name or None,
        proxy_url=cluster.proxy_url or find_proxy(server, environ),
        namespace=chosen.namespace or "default",
        source=source,
        impersonation=_impersonated_user(user).headers(source),
        reload=partial(from_kubeconfig, files, context, environ),
    )
    return replace(config, credentials=_credentials(user, config))


def _read_pem(what: str, inline: str | None, path: str | None, source: str) -> bytes | None:
    """Return a certificate or key, given inline (base64) or as a path."""
    if inline:
        try:
            return base64.b64decode("".join(inline.split()), validate=True)
        except ValueError:
            raise ConfigError(
                f"{source}: {what}-data is not base64", "download the kubeconfig of the cluster again"
            ) from None
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise ConfigError(
            f"{source}: cannot read {what} {path} ({error.strerror})", "check the path"
        ) from error


def _credentials(user: UserSection, config: ClusterConfig) -> Credentials:
    source = config.source
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


def _impersonated_user(user: UserSection) -> ImpersonatedUser:
    extra = user.as_user_extra or {}
    return ImpersonatedUser(
        user.as_ or "",
        tuple(user.as_groups or ()),
        user.as_uid or "",
        tuple((key, value) for key, values in extra.items() for value in values),
    )


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
    """Return the cluster for a plugin, in the format of ExecCredential."""
    authority = base64.b64encode(config.ca_data).decode() if config.ca_data else None
    cluster = {
        "server": config.server,
        "certificate-authority-data": authority,
        "insecure-skip-tls-verify": config.insecure or None,
        "tls-server-name": config.tls_server_name,
        "proxy-url": config.proxy_url,
    }
    return {name: value for name, value in cluster.items() if value is not None}
