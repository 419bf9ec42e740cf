"""The three ways to run the webhooks; `cli` picks one and runs it around the manager.

    hooks = by_service(admissions, client, manager.client, clock, service=ObjectKey(namespace, name))
    health.readiness["webhooks"] = hooks.finding
    async with hooks.running():
        await manager.run()

`client` is one that every replica may write with, `leading` one that only the leader may.
"""

from collections.abc import Sequence
from pathlib import Path

from quintet.admission.certs import service_hosts
from quintet.admission.registration import LOCAL_NAME, NAME, ByService, ByUrl, Endpoint, Registration
from quintet.admission.review import Admission
from quintet.admission.server import AdmissionServer
from quintet.admission.sources import Files, MemoryStore, SecretStore, SelfMade, secret_name
from quintet.admission.webhooks import Webhooks
from quintet.apis.meta import JsonObject, ObjectKey, OwnerReference
from quintet.clock import Clock
from quintet.kube.client import Client

PORT = 9443
# Until every node has taken a pod that ends out of the Service, also on a busy cluster.
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
) -> Webhooks:
    """In the cluster, with certificates of our own in a Secret that all replicas share.

    `name` tells the configurations and the Secret of several processes apart; the Secret goes with `owner`.
    """
    store = SecretStore(client, ObjectKey(service.namespace, secret_name(name)), owner)
    endpoint = Endpoint(at=ByService(*service), name=name)
    return Webhooks(
        AdmissionServer(admissions, clock, port=port),
        SelfMade(store, service_hosts(*service)),
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
    """On a developer's machine that the API server reaches as `host`; ends without a trace.

    `listen` is for a machine that does not know itself by that name (a container's host, a NAT).
    """
    netloc = f"[{host}]" if ":" in host else host
    at = ByUrl(f"https://{netloc}:{port}")
    endpoint = Endpoint(at=at, name=name, namespace_selector=namespace_selector)
    return Webhooks(
        AdmissionServer(admissions, clock, host=listen or host, port=port),
        SelfMade(MemoryStore(), (host,)),
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
) -> Webhooks:
    """In the cluster, with certificates of somebody else.

    cert-manager: `service`, and `certificate` as `namespace/name`; we register, it injects the
    bundle. OLM: neither of them, for it registers as well.
    """
    registration = None
    if service is not None:
        endpoint = Endpoint(at=ByService(*service), name=name, inject_ca_from=certificate)
        registration = Registration(leading, endpoint, admissions)
    return Webhooks(
        AdmissionServer(admissions, clock, port=port), Files(folder), clock, registration, drain=DRAIN
    )
