"""kubectl as a program calls it: asks, insists, waits, and says why something does not come about.

Called by `cli.demo`. Works on the embedded cluster and on any other that a kubeconfig names. A call that
is cancelled takes its process along.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

WAIT = 300
"""Seconds. Generous: the wait ends when the state is there."""
INSIST = 180
PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Kubectl:
    """A namespace of a cluster, as its user sees it."""

    program: Path
    environment: Mapping[str, str]
    namespace: str

    def in_namespace(self, namespace: str) -> Kubectl:
        """Another namespace of the same cluster."""
        return replace(self, namespace=namespace)

    async def call(self, *arguments: str, allow: str = "", text: str = "") -> str:
        """What it answers; `allow` is in the words of an error that is none, `text` is what it reads."""
        command = [str(self.program), f"--namespace={self.namespace}", *arguments]
        code, answer, said = await run_program(command, self.environment, text)
        if code == 0 or (allow and allow in said):
            return answer
        reason = (said.strip().splitlines() or ["it gave no reason"])[-1]
        raise LocalError(
            f"kubectl {' '.join(arguments[:2])}: {reason}",
            f"kubectl --namespace {self.namespace} describe pods",
        )

    async def read(self, *arguments: str) -> Any:
        """One object, or a list of them."""
        return json.loads(await self.call("get", *arguments, "-o", "json"))

    async def show(self, *arguments: str) -> str:
        """A call and its answer, as a user would see them."""
        return f"$ kubectl {' '.join(arguments)}\n{(await self.call(*arguments)).rstrip()}"

    async def retry(self, *arguments: str, want: str = "") -> str:
        """Try for a while, until `want` is in the answer: a Service follows its pods with a delay."""
        error = None
        try:
            async with asyncio.timeout(INSIST):
                while True:
                    try:
                        answer = await self.call(*arguments)
                        if want in answer:
                            return answer
                        error = LocalError(
                            f"kubectl {' '.join(arguments[:2])}: {want!r} is not in the answer",
                            f"kubectl --namespace {self.namespace} {' '.join(arguments)}",
                        )
                    except LocalError as failed:
                        error = failed
                    await asyncio.sleep(PAUSE)
        except TimeoutError:
            raise error or LocalError(
                f"kubectl {' '.join(arguments[:2])}: no answer in {INSIST} s", "kubectl get --raw /readyz"
            ) from None

    async def wait(self, thing: str, state: str) -> None:
        """Wait for `condition=…`, `jsonpath=…`, `create` or `delete`; trouble is found by its cause."""
        try:
            await self.call("wait", thing, f"--for={state}", f"--timeout={WAIT}s")
        except LocalError as error:
            raise await self._late(thing, describe_condition(state), error) from error

    async def wait_for_rollout(self, thing: str) -> None:
        """Wait until every pod of a workload is as it should be."""
        try:
            await self.call("rollout", "status", thing, f"--timeout={WAIT}s")
        except LocalError as error:
            raise await self._late(thing, "is rolled out", error) from error

    async def _late(self, thing: str, state: str, error: LocalError) -> LocalError:
        try:
            found, pods = await self.read(thing), await self.read("pods")
            cause = find_failed_condition(found) or find_waiting_reason(pods["items"]) or error.message
        except LocalError:
            cause = error.message
        return LocalError(
            f"waited in vain until {thing} {state}: {cause}",
            f"kubectl --namespace {self.namespace} describe {thing}",
        )


async def run_program(
    command: list[str], environment: Mapping[str, str], text: str = ""
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a program that is not left behind."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate(text.encode())
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return process.returncode or 0, output.decode(), errors.decode()


def describe_condition(state: str) -> str:
    """What `kubectl wait --for` is found, to be said after the name of an object."""
    sort, _, value = state.partition("=")
    match sort:
        case "condition":
            return f"is {value}"
        case "jsonpath":
            return f"has {value.replace('{.', '').replace('}', '')}"
        case "create":
            return "is there"
        case _:
            return "is gone"


def find_failed_condition(found: Mapping[str, Any]) -> str:
    """What the conditions of an object say is wrong; empty if nothing is."""
    for condition in found.get("status", {}).get("conditions", ()):
        bad = "True" if condition["type"] in ("Failed", "Degraded") else "False"
        if condition["status"] == bad and condition.get("message"):
            return str(condition["message"])
    return ""


def find_waiting_reason(pods: Iterable[Mapping[str, Any]]) -> str:
    """What the first pod waits for that does not run, in the words of its status; empty if all run."""
    for pod in pods:
        status, name = pod["status"], pod["metadata"]["name"]
        for container in status.get("containerStatuses", ()):
            held = container["state"].get("waiting")
            if held:
                return f"pod {name}: {held.get('reason')}: {held.get('message', '')}".strip(": ")
        for condition in status.get("conditions", ()):
            if condition["status"] == "False" and condition.get("message"):
                return f"pod {name}: {condition['message']}"
    return ""
