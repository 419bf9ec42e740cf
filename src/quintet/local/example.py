"""Installs the operator on a cluster, gives it an example and asks the result a question from the inside.

Called by `cli.demo`. Works on the embedded cluster and on any other that a kubeconfig names.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quintet.local.errors import LocalError
from quintet.local.paths import shipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAMESPACE = "quintet-demo"
SYSTEM = "quintet-system"
NAME = "app-my-server"
QUESTION = f"http://{NAME}.{NAMESPACE}.svc:3000/people"
# Asked by the name of the Service: the answer proves cluster DNS, the Service and the pod together.
ASK = (
    f"require('http').get('{QUESTION}', answer => answer.pipe(process.stdout))"
    ".on('error', error => { console.error(error.message); process.exit(1) })"
)
WAIT = "120s"
ATTEMPTS = 15
WEBHOOKS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")


@dataclass(frozen=True, slots=True)
class Example:
    """The example in examples/01-jsonserver, on the cluster that `kubectl` talks to."""

    kubectl: Path
    environment: dict[str, str]
    progress: Callable[[str], None]

    def installed(self) -> bool:
        """Whether the operator is there already; then it is not ours to remove."""
        found = self._call("get", "deployment", "quintet", "--ignore-not-found", "-o", "name", at=SYSTEM)
        return bool(found)

    def install(self) -> None:
        """Install the operator and wait until it runs."""
        self.progress(f"installing the operator: kubectl apply -k {shipped('config/default')}")
        self._call("apply", "-k", str(shipped("config/default")), at=SYSTEM)
        self._ready("rollout", "status", "deployment/quintet", at=SYSTEM)

    @contextmanager
    def operator_here(self) -> Iterator[None]:
        """Run the operator on this machine, for a cluster without a node to run it on."""
        self._call("apply", "-k", str(shipped("config/crd")))
        self.progress("starting the operator on this machine: quintet run")
        start = "from quintet.cli.main import main; main()"
        # Any free port: what it says about its health is of no interest here.
        options = ["--log-level", "warning", "--health-address", "127.0.0.1:0"]
        command = [sys.executable, "-P", "-c", start, "run", *options]
        with subprocess.Popen(command, env=self.environment) as operator:
            try:
                yield
            finally:
                operator.terminate()

    def apply(self) -> None:
        """Create the JsonServer in a namespace of its own."""
        self._call("create", "namespace", NAMESPACE, allow="AlreadyExists")
        self.progress(f"applying {shipped('examples/01-jsonserver/jsonserver.yaml')}")
        self._insist("apply", "-f", str(shipped("examples/01-jsonserver/jsonserver.yaml")))

    def wait(self, condition: str) -> None:
        """Wait until the operator says so."""
        self.progress(f"waiting for jsonserver/{NAME}: {condition}")
        self._ready("wait", f"jsonserver/{NAME}", f"--for=condition={condition}")

    def ask(self) -> str:
        """Return what the Service answers."""
        self.progress(f"asking {QUESTION} from inside a pod")
        return self._insist("exec", f"deployment/{NAME}", "--", "node", "-e", ASK)

    def show(self, *arguments: str) -> str:
        """Return a command and its answer, as a user would see them."""
        return f"$ kubectl {' '.join(arguments)}\n{self._call(*arguments)}"

    def remove(self, *, operator: bool) -> None:
        """Delete the namespace with everything in it, and the operator if it came with us."""
        self._call("delete", "namespace", NAMESPACE, "--ignore-not-found", f"--timeout={WAIT}")
        if operator:
            self._call("delete", "-k", str(shipped("config/default")), "--ignore-not-found", at=SYSTEM)
            # These it made itself, once it knew its certificates.
            for kind in WEBHOOKS:
                self._call("delete", kind, "quintet", "--ignore-not-found")

    def _ready(self, *arguments: str, at: str = NAMESPACE) -> None:
        try:
            self._call(*arguments, f"--timeout={WAIT}", at=at)
        except LocalError as error:
            raise LocalError(f"it does not get ready: {self._why(at)}", error.next_step) from error

    def _insist(self, *arguments: str) -> str:
        """Try for some seconds: a Service, also that of the webhooks, follows its pods with a delay."""
        for _ in range(ATTEMPTS - 1):
            try:
                return self._call(*arguments)
            except LocalError:
                time.sleep(1)
        return self._call(*arguments)

    def _why(self, namespace: str) -> str:
        """Say what the pods wait for, in the words of their status."""
        answer: Any = json.loads(self._call("get", "pods", "-o", "json", at=namespace))
        for pod in answer["items"]:
            for container in pod["status"].get("containerStatuses", []):
                waiting = container["state"].get("waiting")
                if waiting:
                    return f"{waiting.get('reason')}: {waiting.get('message', '')}".strip(": ")
            for condition in pod["status"].get("conditions", []):
                if condition["status"] == "False" and condition.get("message"):
                    return str(condition["message"])
        return "there is no pod"

    def _call(self, *arguments: str, allow: str = "", at: str = NAMESPACE) -> str:
        command = [str(self.kubectl), f"--namespace={at}", *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if answer.returncode == 0 or (allow and allow in answer.stderr):
            return answer.stdout
        said = (answer.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise LocalError(
            f"kubectl {' '.join(arguments[:2])}: {said}", f"kubectl --namespace {at} describe pods"
        )
