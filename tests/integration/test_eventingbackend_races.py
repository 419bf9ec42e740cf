"""EventingBackends when things happen at the same moment, half-way, or while nobody expects them."""

from kit.backends import change, create, ready, says
from kit.proxy import FaultProxy
from quintet.apis.meta import Object
from quintet.controllers.eventingbackend import server
from quintet.kube.client import Client


async def test_what_is_found_without_asking_the_server_is_looked_at_again_only_now_and_then(
    backend_operator, backends: Client, proxy: FaultProxy, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await ready(backends, key)
    theirs = {
        "apiVersion": server.NETWORK_POLICIES.api_version,
        "kind": server.NETWORK_POLICIES.kind,
        "metadata": {"name": "any-nats"},
        "spec": {"podSelector": {}},
    }
    await backends.create(server.NETWORK_POLICIES, theirs, Object, namespace=namespace)
    await change(backends, key)
    await says(backends, key, "Objects could not be made")
    # Longer than the probe before it holds: each look tries to make the policy.
    await proxy.quiet(4.0)
