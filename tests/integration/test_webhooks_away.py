"""What a process on a developer's machine leaves behind when it dies, and that a new one heals it."""

from kit.jsonservers import a_jsonserver, install
from kit.quintet import apply, run_with_webhooks, with_webhooks
from quintet.kube.client import Client


async def test_webhooks_that_died_block_only_jsonservers_and_a_new_start_heals(
    cluster, client: Client, namespace
):
    await install(client)
    program = await run_with_webhooks(cluster.kubeconfig, "jsonserver")
    assert apply(cluster, namespace, a_jsonserver("app-before")).returncode == 0
    program.kill()
    await program.ended()
    done = apply(cluster, namespace, a_jsonserver("app-during"))
    assert "failed calling webhook" in done.stderr
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "unrelated"}}
    assert apply(cluster, namespace, other).returncode == 0
    deleted = cluster.kubectl("delete", "js", "app-before", "-n", namespace, "--wait=false")
    assert deleted.returncode == 0, "a deletion must not wait for webhooks"
    async with with_webhooks(cluster.kubeconfig, "jsonserver"):
        assert apply(cluster, namespace, a_jsonserver("app-after")).returncode == 0
    assert apply(cluster, namespace, a_jsonserver("app-without")).returncode == 0, (
        "a stopped process left its webhooks"
    )
