"""Objects that a process creates for itself are owned by its ServiceAccount and deleted with it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from kit.cluster.access_reviews import wait_for_permissions
from kit.cluster.api import Api
from kit.eventually import eventually
from quintet.admission.sources import SECRETS, SecretStore, SelfSignedCertificates, StaleSecretError
from quintet.apis.meta import JsonObject, Object, ObjectKey, OwnerReference
from quintet.clock import SystemClock
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.credentials import StaticHeader
from quintet.kube.service_account import own_service_account
from quintet.kube.transport import Transport
from quintet.manifests.rbac import process_rules
from quintet.runtime.leader import LEASES, Leader, Lease, Terms

NAME = "robot"
SECRET = f"{NAME}-webhook-certs"
HOSTS = ("robot.svc",)


@pytest.fixture
async def robot(cluster, api: Api, namespace: str) -> AsyncIterator[Client]:
    """A client with a ServiceAccount that has exactly the permissions of a process in its own namespace."""
    await create_service_account(api, namespace)
    group = "rbac.authorization.k8s.io"
    roles = f"/apis/{group}/v1/namespaces/{namespace}"
    await api.create(f"{roles}/roles", {"metadata": {"name": NAME}, "rules": process_rules(NAME)})
    reference = {"kind": "Role", "name": NAME, "apiGroup": group}
    subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}]
    body = {"metadata": {"name": NAME}, "roleRef": reference, "subjects": subjects}
    await api.create(f"{roles}/rolebindings", body)
    made = {"kind": "Role", "metadata": {"name": NAME, "namespace": namespace}, "rules": process_rules(NAME)}
    bound = {"kind": "RoleBinding", **body, "metadata": {"name": NAME, "namespace": namespace}}
    await wait_for_permissions(api, (made, bound))
    token = await api.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{NAME}/token",
        {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"},
    )
    credentials = StaticHeader(f"Bearer {token['status']['token']}")
    found = config.ClusterConfig(cluster.server, credentials, cluster.ca.read_bytes())
    async with Transport(found) as transport:
        yield Client(transport)


async def create_service_account(api: Api, namespace: str, name: str = NAME) -> JsonObject:
    return await api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})


def a_leader(client: Client, namespace: str, owner: OwnerReference | None, identity: str = "one") -> Leader:
    return Leader(client, ObjectKey(namespace, NAME), identity, SystemClock(), Terms(retry=0.2, owner=owner))


async def test_only_a_service_account_of_the_namespace_becomes_owner(
    robot: Client, client: Client, namespace: str
):
    owner = await own_service_account(robot, namespace)
    assert owner is not None
    assert (owner.kind, owner.name, bool(owner.uid)) == ("ServiceAccount", NAME, True)
    assert await own_service_account(robot, "elsewhere") is None, "an owner must be where its objects are"
    assert await own_service_account(client, namespace) is None, "an administrator is no account"


async def test_client_that_cannot_identify_itself_creates_lease_without_owner(
    cluster, client: Client, namespace: str
):
    nobody = config.ClusterConfig(cluster.server, ca_data=cluster.ca.read_bytes())
    async with Transport(nobody) as transport:
        assert await own_service_account(Client(transport), namespace) is None
    await a_leader(client, namespace, None).acquire()
    lease = await client.get(LEASES, ObjectKey(namespace, NAME), Lease)
    assert lease.metadata.owner_references == ()


async def test_lease_and_certificate_secret_are_deleted_with_service_account(
    robot: Client, client: Client, api: Api, namespace: str
):
    owner = await own_service_account(robot, namespace)
    await a_leader(robot, namespace, owner).acquire()
    await SelfSignedCertificates(SecretStore(robot, ObjectKey(namespace, SECRET), owner), HOSTS).current(
        datetime.now(UTC)
    )
    kept = [(LEASES, NAME), (SECRETS, SECRET)]
    for resource, name in kept:
        found = await client.get(resource, ObjectKey(namespace, name), Object)
        assert [each.uid for each in found.metadata.owner_references] == [owner.uid], resource
    await api.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/{NAME}")

    async def assert_gone() -> None:
        for resource, name in kept:
            assert not await api.exists(resource.path(namespace, name)), resource

    await eventually(assert_gone, within=120)


async def test_lease_keeps_owner_after_renewal_release_and_takeover(
    robot: Client, client: Client, namespace: str
):
    owner = await own_service_account(robot, namespace)
    first, second = (a_leader(robot, namespace, owner, name) for name in ("one", "two"))
    await first.acquire()
    await first.release()
    await second.acquire()
    lease = await client.get(LEASES, ObjectKey(namespace, NAME), Lease)
    assert lease.spec.holder_identity == "two"
    assert [each.uid for each in lease.metadata.owner_references] == [owner.uid]


async def test_objects_of_deleted_service_account_are_awaited_and_not_taken_over(
    robot: Client, client: Client, api: Api, namespace: str
):
    """A leader with a Lease that is about to be deleted would soon have a rival."""
    owner = await own_service_account(robot, namespace)
    await a_leader(robot, namespace, owner).acquire()
    store = SecretStore(robot, ObjectKey(namespace, SECRET), owner)
    await SelfSignedCertificates(store, HOSTS).current(datetime.now(UTC))
    made = await create_service_account(api, namespace, "another")
    newer = OwnerReference(owner.api_version, owner.kind, "another", made["metadata"]["uid"])
    leader = a_leader(client, namespace, newer, "two")
    acquiring = asyncio.create_task(leader.acquire())
    with pytest.raises(StaleSecretError, match="a deleted ServiceAccount"):
        await SecretStore(client, ObjectKey(namespace, SECRET), newer).read()
    await asyncio.sleep(0.5)
    assert not acquiring.done()
    lease = await client.get(LEASES, ObjectKey(namespace, NAME), Lease)
    assert lease.spec.holder_identity == "one"
    await api.delete(LEASES.path(namespace, NAME))
    await asyncio.wait_for(acquiring, 60)
    taken = await client.get(LEASES, ObjectKey(namespace, NAME), Lease)
    assert [each.uid for each in taken.metadata.owner_references] == [newer.uid]
