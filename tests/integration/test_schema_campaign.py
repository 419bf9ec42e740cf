"""Every property of every kind: set, changed, unset and broken, on a real API server with all controllers and webhooks.

`make test` runs a part of the properties, chosen evenly; `make test-all` runs all of them.
"""

from collections.abc import AsyncIterator

import pytest

from kit.campaign.property_runs import PropertyRuns
from kit.campaign.schema_cases import properties
from kit.cli.quintet import with_webhooks
from kit.cluster.api import Api
from kit.kinds.controllers import install_crds
from kit.process import Program
from quintet import kinds
from quintet.kinds import Kind

KINDS = [kind for kind in kinds.all_kinds() if kind.component]
QUICK = 12
"""How many properties of a kind `make test` runs."""
REJECTING = ("--eventing-config-errors", "Reject")
FEW_PODS = {"pods": "20", "persistentvolumeclaims": "60"}


@pytest.fixture(scope="module")
async def process(cluster, client) -> AsyncIterator[Program]:
    await install_crds(client)
    async with with_webhooks(cluster.kubeconfig, *kinds.component_names(), options=REJECTING) as program:
        yield program


@pytest.fixture
async def campaign_namespace(api: Api, namespace: str) -> str:
    """A namespace in which no value of a property can create many pods."""
    quota = {"metadata": {"name": "few"}, "spec": {"hard": FEW_PODS}}
    await api.create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    return namespace


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_some_properties_of_a_kind_keep_their_promises(
    process: Program, api: Api, campaign_namespace: str, kind: Kind
):
    await run_properties(process, PropertyRuns(api, kind, campaign_namespace), QUICK)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_all_properties_of_a_kind_keep_their_promises(
    process: Program, api: Api, campaign_namespace: str, kind: Kind
):
    await run_properties(process, PropertyRuns(api, kind, campaign_namespace), None)


async def run_properties(process: Program, runs: PropertyRuns, most: int | None) -> None:
    logged = len(process.log)
    found = list(properties(runs.schema))
    step = 1 if most is None else max(1, len(found) // most)
    await runs.run(found[::step])
    crashes = [line for line in process.log[logged:] if "Reconciliation crashed" in line]
    shown = "\n".join([*runs.violations, *crashes[:20]])
    assert not shown, f"{runs.admitted} admitted, {runs.refused} refused\n{shown}"
    assert runs.admitted > 0
    assert runs.refused > 0
