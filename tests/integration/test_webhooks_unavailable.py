"""Webhooks of a process on a developer's machine that died, and their repair by a new process."""

from kit.cli.quintet import apply, run_with_webhooks, with_webhooks
from kit.kinds.jsonservers import a_jsonserver, install
from quintet.kube.client import Client


async def test_webhooks_of_dead_process_block_only_jsonservers_until_restart(
    cluster, client: Client, namespace
):
    await install(client)
    program = await run_with_webhooks(cluster.kubeconfig, "jsonserver")
    try:
        before = apply(cluster, namespace, a_jsonserver("app-before"))
        program.kill()
        await program.ended()
        during = apply(cluster, namespace, a_jsonserver("app-during"))
        other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "unrelated"}}
        unrelated = apply(cluster, namespace, other)
        deleted = cluster.kubectl("delete", "js", "app-before", "-n", namespace, "--wait=false")
    finally:
        # Also removes the registration of the first process, which would block later tests.
        program.kill()
        async with with_webhooks(cluster.kubeconfig, "jsonserver"):
            after = apply(cluster, namespace, a_jsonserver("app-after"))
    assert before.returncode == 0, before.stderr
    assert "failed calling webhook" in during.stderr
    assert unrelated.returncode == 0, unrelated.stderr
    assert deleted.returncode == 0, "a deletion must not wait for webhooks"
    assert after.returncode == 0, after.stderr
    assert apply(cluster, namespace, a_jsonserver("app-without")).returncode == 0, (
        "a stopped process left its webhooks"
    )
