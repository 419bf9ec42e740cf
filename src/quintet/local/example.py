"""Runs an example on a cluster and asks it a question from the inside; used by the demo.

Called by `cli.demo`. Works on the embedded cluster and on any other that a kubeconfig names.
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACE = "quintet-demo"
NAME = "hello"
QUESTION = f"http://{NAME}/greetings"
# Asked by the name of the Service: the answer proves cluster DNS, the Service and the pod together.
ASK = (
    f"require('http').get('{QUESTION}', answer => answer.pipe(process.stdout))"
    ".on('error', error => { console.error(error.message); process.exit(1) })"
)
WAIT = "120s"
ATTEMPTS = 15


@dataclass(frozen=True, slots=True)
class Example:
    """The example in examples/00-hello, on the cluster that `kubectl` talks to."""

    kubectl: Path
    environment: dict[str, str]
    progress: Callable[[str], None]

    def run(self) -> str:
        """Apply it, wait for its pod and return what its Service answers."""
        self.apply()
        self.progress(f"waiting for the pod of deployment {NAME}")
        try:
            self._call("rollout", "status", f"deployment/{NAME}", f"--timeout={WAIT}")
        except LocalError as error:
            raise LocalError(f"the pod does not get ready: {self._why()}", error.next_step) from error
        self.progress(f"asking {QUESTION} from inside the pod")
        return self._ask()

    def _ask(self) -> str:
        # A Service follows its pods with a delay of about a second.
        for _ in range(ATTEMPTS - 1):
            try:
                return self._call("exec", f"deployment/{NAME}", "--", "node", "-e", ASK)
            except LocalError:
                time.sleep(1)
        return self._call("exec", f"deployment/{NAME}", "--", "node", "-e", ASK)

    def apply(self) -> None:
        """Create its objects in a namespace of their own."""
        self._call("create", "namespace", NAMESPACE, allow="AlreadyExists")
        self.progress(f"applying {manifest()}")
        self._call("apply", "-f", str(manifest()))

    def objects(self) -> str:
        """Return the table a user would see."""
        return self._call(
            "get", "pods,services,persistentvolumeclaims,configmaps", "-l", f"app.kubernetes.io/name={NAME}"
        )

    def remove(self) -> None:
        """Delete the namespace with everything in it."""
        self._call("delete", "namespace", NAMESPACE, "--ignore-not-found", f"--timeout={WAIT}")

    def _why(self) -> str:
        """Say what the pods wait for, in the words of their status."""
        answer: Any = json.loads(self._call("get", "pods", "-o", "json"))
        for pod in answer["items"]:
            for container in pod["status"].get("containerStatuses", []):
                waiting = container["state"].get("waiting")
                if waiting:
                    return f"{waiting.get('reason')}: {waiting.get('message', '')}".strip(": ")
            for condition in pod["status"].get("conditions", []):
                if condition["status"] == "False" and condition.get("message"):
                    return str(condition["message"])
        return "there is no pod"

    def _call(self, *arguments: str, allow: str = "") -> str:
        command = [str(self.kubectl), f"--namespace={NAMESPACE}", *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if answer.returncode == 0 or (allow and allow in answer.stderr):
            return answer.stdout
        said = (answer.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        look = f"kubectl --namespace {NAMESPACE} describe pods"
        raise LocalError(f"kubectl {' '.join(arguments[:2])}: {said}", look)


def manifest() -> Path:
    """Return the example's file: in the package when installed, else in the checkout."""
    packaged = Path(__file__).parent / "share/examples/00-hello/hello.yaml"
    return packaged if packaged.exists() else Path(__file__).parents[3] / "examples/00-hello/hello.yaml"
