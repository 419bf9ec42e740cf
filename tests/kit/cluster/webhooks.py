"""Waiting until the API server calls a webhook or no longer calls it; it learns of both through a watch.

The process must register its webhooks by URL; its metrics show whether they were called. Samples are sent as dry runs.
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import yaml

from kit.cluster.api import Api, RefusedError
from kit.eventually import eventually
from quintet.admission.registration import LOCAL_NAME, MUTATING, VALIDATING
from quintet.apis.meta import JsonObject, Resource

SAMPLES = Path(__file__).parents[3] / "config/samples"
ASKED = re.compile(r'^controller_runtime_webhook_requests_total\{.*webhook="([^"]+)".*\} [1-9]', re.MULTILINE)
NOBODY_THERE = "failed calling webhook"


def a_sample(resource: Resource) -> JsonObject:
    """Return a sample object of a kind under a unique name."""
    for file in sorted(SAMPLES.glob(f"{resource.kind.lower()}*.yaml")):
        for body in filter(None, yaml.safe_load_all(file.read_text())):
            if body["kind"] == resource.kind:
                return {**body, "metadata": {"name": f"app-probe-{secrets.token_hex(3)}"}}
    raise AssertionError(f"there is no sample of a {resource.kind}")


async def wait_until_called(api: Api, health: int, resources: Iterable[Resource]) -> None:
    """Wait until the API server calls the webhooks of the process with this health port for all kinds."""
    kinds = list(resources)

    async def probe() -> None:
        for resource in kinds:
            await _create_sample(api, resource)
        url = f"http://127.0.0.1:{health}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            seen = set(ASKED.findall(await answer.text()))
        for configuration in (MUTATING, VALIDATING):
            path = configuration.path("", LOCAL_NAME)
            # A kind without defaults has none that fills in.
            live = await api.get(path) if configuration == VALIDATING or await api.exists(path) else {}
            for resource in kinds:
                paths = set(_paths(live, resource.plural))
                assert not paths or paths & seen, f"of {paths} nothing was asked, only {seen}"

    await eventually(probe, within=60)


async def wait_until_unregistered(api: Api, resources: Iterable[Resource]) -> None:
    """Wait until the API server calls no missing webhook for these kinds."""
    for resource in resources:

        async def probe(resource: Resource = resource) -> None:
            said = await _create_sample(api, resource)
            assert NOBODY_THERE not in said, said

        await eventually(probe, within=60)


async def _create_sample(api: Api, resource: Resource) -> str:
    """Create a sample as a dry run and return the rejection, if any."""
    try:
        await api.create(resource.path("default"), a_sample(resource), dryRun="All")
    except RefusedError as refusal:
        return str(refusal)
    return ""


def _paths(configuration: JsonObject, plural: str) -> Iterator[str]:
    for hook in configuration.get("webhooks", ()):
        if any(plural in rule["resources"] for rule in hook["rules"]):
            yield urlsplit(hook["clientConfig"]["url"]).path
