"""Sets, changes, unsets and breaks one property of an object at a time, and judges what the product does.

The oracles know nothing about single kinds:

* a refused value is refused with a 4xx status whose message names the property;
* of an admitted object the status speaks: for its generation, with conditions that have reasons, none `InternalError`;
* back at the first spec, the children are those of an object that never had another spec.
"""

import asyncio
import contextlib
import copy
import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kit.campaign.schema_cases import ITEM, Property, allowed_values, forbidden_values, place, with_part
from kit.cluster.api import Api, RefusedError
from kit.cluster.namespace_state import created_collections, read_objects
from kit.eventually import NotInTimeError, eventually
from quintet.apis.checkup import CHECKUPS
from quintet.apis.eventingbackend import EVENTINGBACKENDS
from quintet.apis.eventingbackend.catalog import NATS
from quintet.apis.eventingbackend.jsonschema import config_schema
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import JsonObject, Resource
from quintet.apis.podtemplate import pod_patch_schema
from quintet.apis.resources import CustomResource
from quintet.kinds import PROBE_NAME, Kind, load
from quintet.manifests.crd import custom_resource_definition

SECONDS = 60.0
SHOWN_LINES = 40
REFUSALS = (400, 403, 422)
OTHER_FIELD = "spec."
"""In the error for an allowed value that another field does not go with: the error may name the other one."""
DECIDED_AT_CREATION = frozenset({"spec.config[].maxBytes", "spec.config[].streamReplicas"})
"""Size and number of the volumes of a NATS server that Quintet runs; docs/eventingbackend.md says so."""
IMMUTABLE = "must not be changed"
"""What a rule says that concerns a whole spec."""


@dataclass
class PropertyRuns:
    """Runs of the properties of one kind in one namespace, and the violations that they found."""

    api: Api
    kind: Kind
    namespace: str
    admitted: int = 0
    refused: int = 0
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        declaration = load(self.kind.declaration)
        self.resource: Resource = declaration.resource
        self.schema = _full_schema(declaration)
        self._children = created_collections([self.kind], self.namespace)
        self._first_state: list[str] | None = None

    async def run(self, chosen: Iterable[Property], concurrency: int = 6) -> None:
        """Run properties, several at once."""
        numbered = enumerate(chosen)

        async def work() -> None:
            for number, each in numbered:
                await self._run_property(each, f"app-case-{number}")

        await self._learn_first_state()
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())

    def base(self, name: str) -> JsonObject:
        """Return the smallest valid object of the kind."""
        text = json.dumps(dict(self.kind.probe)).replace(PROBE_NAME, name)
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": name},
            "spec": json.loads(text.replace("{namespace}", self.namespace)),
        }

    async def _run_property(self, chosen: Property, name: str) -> None:
        base = self.base(name)
        for value in forbidden_values(chosen.schema):
            await self._refuse(chosen, place(self.schema, base, chosen.steps, value), value)
        values = [
            each for each in allowed_values(chosen.schema)
            if await self._is_admitted(chosen, place(self.schema, base, chosen.steps, each), each)
        ]  # fmt: skip
        if not values:
            return
        try:
            await self._create(place(self.schema, base, chosen.steps, values[0]))
            for value in values[1:]:
                await self._replace(place(self.schema, base, chosen.steps, value), chosen, value)
            if await self._replace(base, chosen, None) and str(chosen) not in DECIDED_AT_CREATION:
                await self._settle_at_first_state(chosen, name)
        except NotInTimeError as error:
            self._report(chosen, values, str(error))
        finally:
            with contextlib.suppress(RefusedError):
                await self.api.delete(self._path(name))

    async def _refuse(self, chosen: Property, body: JsonObject, value: Any) -> None:
        """Send a forbidden value: it must be refused, with the name of the property."""
        try:
            await self.api.create(self._path(), body, dryRun="All", fieldValidation="Strict")
        except RefusedError as refusal:
            self._judge_refusal(chosen, value, refusal)
        else:
            self._report(chosen, value, "is forbidden by the schema, but admitted")

    async def _is_admitted(self, chosen: Property, body: JsonObject, value: Any) -> bool:
        try:
            await self.api.create(self._path(), body, dryRun="All", fieldValidation="Strict")
        except RefusedError as refusal:
            self._judge_refusal(chosen, value, refusal, OTHER_FIELD)
            return False
        return True

    def _judge_refusal(self, chosen: Property, value: Any, refusal: RefusedError, *also: str) -> None:
        self.refused += 1
        said = json.dumps(refusal.status)
        if refusal.code not in REFUSALS:
            self._report(chosen, value, f"refused with {refusal}")
        elif not any(name in said for name in (*chosen.names, *also)):
            self._report(chosen, value, f"refused without naming one of {chosen.names}: {refusal}")

    async def _create(self, body: JsonObject) -> None:
        self.admitted += 1
        await self.api.create(self._path(), body)
        await self._wait_for_status(body["metadata"]["name"])

    async def _replace(self, body: JsonObject, chosen: Property, value: Any) -> bool:
        """Replace the object; return False if the update is refused, as it is for immutable properties."""
        name = body["metadata"]["name"]

        async def replace() -> bool:
            live = await self.api.get(self._path(name))
            metadata = {**live["metadata"], "labels": body["metadata"].get("labels", {})}
            try:
                await self.api.update(self._path(name), {**copy.deepcopy(body), "metadata": metadata})
            except RefusedError as refusal:
                if refusal.code == 409:  # another writer was faster: try again
                    raise
                self._judge_refusal(chosen, value, refusal, IMMUTABLE)
                return False
            return True

        if not await eventually(replace, within=SECONDS):
            return False
        self.admitted += 1
        await self._wait_for_status(name)
        return True

    async def _wait_for_status(self, name: str) -> None:
        async def told() -> None:
            live = await self.api.get(self._path(name))
            status = live.get("status", {})
            assert status.get("observedGeneration") == live["metadata"]["generation"], status
            conditions = status.get("conditions", ())
            assert conditions, status
            for each in conditions:
                assert each.get("reason", "") not in ("", "InternalError"), each

        await eventually(told, within=SECONDS)

    async def _learn_first_state(self) -> None:
        """Create an object of the first spec and keep the children that it settles with."""
        name = "app-case-first"
        await self._create(self.base(name))
        previous: list[str] = []

        async def settled() -> list[str]:
            nonlocal previous
            earlier, previous = previous, await self._state(name)
            await asyncio.sleep(0.5)
            assert earlier == previous == await self._state(name), "the children still change"
            return previous

        self._first_state = await eventually(settled, within=SECONDS)
        await self.api.delete(self._path(name))

    async def _settle_at_first_state(self, chosen: Property, name: str) -> None:
        async def same() -> None:
            assert self._first_state is not None
            now = await self._state(name)
            changes = difflib.unified_diff(self._first_state, now, "first", "now", lineterm="", n=1)
            assert now == self._first_state, "\n".join([*changes][:SHOWN_LINES])

        await eventually(same, within=SECONDS)

    async def _state(self, name: str) -> list[str]:
        """Return the children of an object as lines."""
        uid = (await self.api.get(self._path(name)))["metadata"]["uid"]
        return await read_objects(
            self.api, self._children, (rf"{name}-[a-z0-9]{{4,12}}\b", rf"{name}\b"), owner=uid
        )

    def _report(self, chosen: Property, value: Any, problem: str) -> None:
        self.violations.append(f"{self.kind.name} {chosen} = {json.dumps(value)[:120]}: {problem}")

    def _path(self, name: str = "") -> str:
        return self.resource.path(self.namespace, name) if name else self.resource.path(self.namespace)


def _full_schema(declaration: CustomResource) -> JsonObject:
    """Return the schema of a kind, with what its webhook checks where the CRD preserves unknown fields."""
    version = custom_resource_definition(declaration)["spec"]["versions"][-1]
    schema: JsonObject = version["schema"]["openAPIV3Schema"]
    if declaration.resource in (JSONSERVERS, CHECKUPS):
        return with_part(schema, ("spec", "template", "spec"), pod_patch_schema())
    if declaration.resource == EVENTINGBACKENDS:
        return with_part(
            schema, ("spec", "config", ITEM), {"type": "object", "properties": _option_schemas()}
        )
    return schema


def _option_schemas() -> dict[str, JsonObject]:
    """Return the schemas of the options of the type nats, with the words of a structural schema."""
    found: dict[str, JsonObject] = {}
    for name, schema in config_schema(NATS)["items"]["properties"].items():
        found[name] = {**schema}
        if isinstance(schema["type"], list):
            found[name].pop("type")
            found[name]["x-kubernetes-int-or-string"] = True
    return found
