"""The three ways to run the webhooks.

    hooks = by_service(admissions, client, manager.client, clock, service=ObjectKey(namespace, name))
    health.readiness["webhooks"] = hooks.readiness_problem
    async with hooks.running():
        await manager.run()

Every replica may write with `client`, only the leader with `leading`.
"""

from collections.abc import Sequence
from pathlib import Path

from quintet.admission.certs import service_hosts
from quintet.admission.registration import (
    LOCAL_NAME,
    NAME,
    Registration,
    ServiceTarget,
    UrlTarget,
    WebhookEndpoint,
)
from quintet.admission.review import Admission
from quintet.admission.server import AdmissionServer
from quintet.admission.sources import (
    CertificateFiles,
    MemoryStore,
    SecretStore,
    SelfSignedCertificates,
    secret_name,
)
from quintet.admission.webhooks import Webhooks
from quintet.apis.meta import JsonObject, ObjectKey, OwnerReference
from quintet.clock import Clock
from quintet.kube.client import Client

PORT = 9443
# Until every node has removed a terminating pod from the Service, even on a busy cluster.
DRAIN = 5.0


def by_service(
    admissions: Sequence[Admission],
    client: Client,
    leading: Client,
    clock: Clock,
    *,
    service: ObjectKey,
    port: int = PORT,
    name: str = NAME,
    owner: OwnerReference | None = None,
    namespace_selector: JsonObject | None = None,
) -> Webhooks:
    """Return webhooks behind a Service, with self-signed certificates in a Secret that all replicas share.

    `name` is that of the configurations, and part of the Secret's; `owner` owns the Secret.
    """
    store = SecretStore(client, ObjectKey(service.namespace, secret_name(name)), owner)
    endpoint = WebhookEndpoint(at=ServiceTarget(*service), name=name, namespace_selector=namespace_selector)
    return Webhooks(
        AdmissionServer(admissions, clock, port=port),
        SelfSignedCertificates(store, service_hosts(*service)),
        clock,
        Registration(leading, endpoint, admissions),
        drain=DRAIN,
    )


def by_url(
    admissions: Sequence[Admission],
    client: Client,
    clock: Clock,
    *,
    host: str,
    listen: str = "",
    port: int = PORT,
    name: str = LOCAL_NAME,
    namespace_selector: JsonObject | None = None,
) -> Webhooks:
    """Return webhooks on a machine that the API server reaches as `host`; removed at shutdown.

    `listen` is the address to listen on where it differs (container host, NAT).
    """
    netloc = f"[{host}]" if ":" in host else host
    at = UrlTarget(f"https://{netloc}:{port}")
    endpoint = WebhookEndpoint(at=at, name=name, namespace_selector=namespace_selector)
    return Webhooks(
        AdmissionServer(admissions, clock, host=listen or host, port=port),
        SelfSignedCertificates(MemoryStore(), (host,)),
        clock,
        Registration(client, endpoint, admissions),
        remove=True,
    )


def by_files(
    admissions: Sequence[Admission],
    leading: Client,
    clock: Clock,
    *,
    folder: Path,
    service: ObjectKey | None = None,
    certificate: str = "",
    port: int = PORT,
    name: str = NAME,
    namespace_selector: JsonObject | None = None,
) -> Webhooks:
    """Return webhooks behind a Service, with certificates that somebody else renews in a folder.

    For cert-manager, set `service` and `certificate` (`namespace/name`): we register the webhooks, it sets
    the caBundle. For OLM, set neither: it registers the webhooks itself.
    """
    registration = None
    if service is not None:
        endpoint = WebhookEndpoint(
            at=ServiceTarget(*service),
            name=name,
            inject_ca_from=certificate,
            namespace_selector=namespace_selector,
        )
        registration = Registration(leading, endpoint, admissions)
    return Webhooks(
        AdmissionServer(admissions, clock, port=port),
        CertificateFiles(folder),
        clock,
        registration,
        drain=DRAIN,
    )
