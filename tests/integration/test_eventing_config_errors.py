"""An operator that rejects errors in spec.config: the whole process, as it is installed."""

from collections.abc import AsyncIterator

import pytest

from kit.cli.quintet import apply, with_webhooks
from kit.eventually import eventually
from kit.kinds.controllers import install_crds
from kit.process import Program
from quintet.admission.eventingbackend import NAMESPACE_LABEL
from quintet.apis.eventingbackend import EVENTINGBACKEND, EVENTINGBACKENDS
from quintet.apis.meta import JsonObject
from quintet.apis.subscription import SUBSCRIPTION
from quintet.kube.client import Client

FAULT = 'spec.config[streamReplicas]: Invalid value: "9": must be set between 1 and 5'


def a_backend(**key: object) -> JsonObject:
    return {
        "apiVersion": EVENTINGBACKENDS.api_version,
        "kind": EVENTINGBACKENDS.kind,
        "metadata": {"name": "main"},
        "spec": {"type": "nats", "config": [key]},
    }


@pytest.fixture(scope="module")
async def rejecting(client: Client, cluster) -> AsyncIterator[Program]:
    await install_crds(client, EVENTINGBACKEND, SUBSCRIPTION)
    options = ("--eventing-config-errors", "Reject")
    async with with_webhooks(cluster.kubeconfig, "eventing", options=options) as program:
        yield program


async def test_operator_in_reject_mode_rejects_config_errors_except_in_labelled_namespace(
    rejecting, cluster, namespace
):
    refused = apply(cluster, namespace, a_backend(streamReplicas=9))
    assert refused.returncode != 0
    assert FAULT in refused.stderr
    done = cluster.kubectl("label", "namespace", namespace, f"{NAMESPACE_LABEL}=Warn")
    assert done.returncode == 0, done.stderr

    def assert_warned() -> None:
        done = apply(cluster, namespace, a_backend(streamReplicas=9))
        assert done.returncode == 0, done.stderr
        assert done.stderr == f"Warning: {FAULT}\n"

    await eventually(assert_warned)


async def test_operator_in_reject_mode_admits_valid_config_silently(rejecting, cluster, namespace):
    done = apply(cluster, namespace, a_backend(streamReplicas=3))
    assert (done.returncode, done.stderr) == (0, "")
