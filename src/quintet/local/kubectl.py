"""Runs kubectl from a program: calls, retries, waits, and finds out why a wait failed.

Works on the embedded cluster and on any cluster of a kubeconfig. Cancelling a call kills its process.
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
"""Timeout of a wait in seconds; generous, because a wait ends as soon as the state is reached."""
RETRY_SECONDS = 180
PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl for one namespace of a cluster."""

    program: Path
    environment: Mapping[str, str]
    namespace: str

    def in_namespace(self, namespace: str) -> Kubectl:
        """Return kubectl for another namespace of the same cluster."""
        return replace(self, namespace=namespace)

    async def call(self, *arguments: str, allow: str = "", text: str = "") -> str:
        """Run kubectl and return its output.

        An error whose text contains `allow` is ignored; `text` is the standard input.
        """
        command = [str(self.program), f"--namespace={self.namespace}", *arguments]
        code, output, errors = await run_program(command, self.environment, text)
        if code == 0 or (allow and allow in errors):
            return output
        reason = (errors.strip().splitlines() or ["no error message"])[-1]
        raise LocalError(
            f"kubectl {' '.join(arguments[:2])}: {reason}",
            f"kubectl --namespace {self.namespace} describe pods",
        )

    async def read(self, *arguments: str) -> Any:
        """Return an object, or a list of objects, as decoded JSON."""
        return json.loads(await self.call("get", *arguments, "-o", "json"))

    async def show(self, *arguments: str) -> str:
        """Run kubectl; return the command line and its output, as in a terminal."""
        return f"$ kubectl {' '.join(arguments)}\n{(await self.call(*arguments)).rstrip()}"

    async def retry(self, *arguments: str, want: str = "") -> str:
        """Retry until the call succeeds and its output contains `want`.

        A Service, for example, routes to new pods with a delay.
        """
        error = None
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                while True:
                    try:
                        output = await self.call(*arguments)
                        if want in output:
                            return output
                        error = LocalError(
                            f"kubectl {' '.join(arguments[:2])}: the output does not contain {want!r}",
                            f"kubectl --namespace {self.namespace} {' '.join(arguments)}",
                        )
                    except LocalError as failed:
                        error = failed
                    await asyncio.sleep(PAUSE)
        except TimeoutError:
            raise error or LocalError(
                f"kubectl {' '.join(arguments[:2])}: no response in {RETRY_SECONDS} s",
                "kubectl get --raw /readyz",
            ) from None

    async def wait(self, thing: str, state: str) -> None:
        """Run `kubectl wait --for=STATE`; a timeout raises an error with the cause."""
        try:
            await self.call("wait", thing, f"--for={state}", f"--timeout={WAIT}s")
        except LocalError as error:
            raise await self._timeout_error(thing, describe_condition(state), error) from error

    async def wait_for_rollout(self, thing: str) -> None:
        """Wait until the rollout of a workload is complete."""
        try:
            await self.call("rollout", "status", thing, f"--timeout={WAIT}s")
        except LocalError as error:
            raise await self._timeout_error(thing, "is rolled out", error) from error

    async def _timeout_error(self, thing: str, state: str, error: LocalError) -> LocalError:
        try:
            found, pods = await self.read(thing), await self.read("pods")
            cause = find_failed_condition(found) or find_waiting_reason(pods["items"]) or error.message
        except LocalError:
            cause = error.message
        return LocalError(
            f"timed out waiting until {thing} {state}: {cause}",
            f"kubectl --namespace {self.namespace} describe {thing}",
        )


async def run_program(command: list[str], env: Mapping[str, str], text: str = "") -> tuple[int, str, str]:
    """Run a program; return its exit code, standard output and standard error.

    Cancelling kills the program.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(env),
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
    """Return a state of `kubectl wait --for` as a phrase that follows the name of an object."""
    sort, _, value = state.partition("=")
    match sort:
        case "condition":
            return f"is {value}"
        case "jsonpath":
            return f"has {value.replace('{.', '').replace('}', '')}"
        case "create":
            return "exists"
        case _:
            return "is deleted"


def find_failed_condition(found: Mapping[str, Any]) -> str:
    """Return the message of the first condition that reports a failure; empty if there is none."""
    for condition in found.get("status", {}).get("conditions", ()):
        bad = "True" if condition["type"] in ("Failed", "Degraded") else "False"
        if condition["status"] == bad and condition.get("message"):
            return str(condition["message"])
    return ""


def find_waiting_reason(pods: Iterable[Mapping[str, Any]]) -> str:
    """Return why the first pod that does not run is waiting; empty if all pods run."""
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
