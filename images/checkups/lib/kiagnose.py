"""Library for checkups in Python: parameters, results and verdict. Needs only the standard library.

    def check(run: kiagnose.Run) -> None:
        run.result("echo", run.param("message"))

    kiagnose.main(check)

Copy this file beside your program. It supports both contracts of Kiagnose: a ConfigMap with parameters is
marked as started, and one that was used before is refused.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MERGE = "application/merge-patch+json"
# Timeout of one request, and how long to retry when the API server is busy or unavailable.
REQUEST_SECONDS, RETRY_SECONDS = 10.0, 30.0
LONGEST_PAUSE = 5.0
CONFLICT, TOO_MANY, SERVER_ERROR = 409, 429, 500
# Errors that a smaller body would not avoid: no permission, no such object, a conflict.
PERMANENT_ERRORS = (401, 403, 404, CONFLICT)
STARTED = "status.startTimestamp"
KEY = re.compile(r"[-._a-zA-Z0-9]+")
LONGEST_KEY = 253
LONGEST_REASON = 1024
DURATION = re.compile(r"(\d+(?:\.\d*)?)(h|ms|m|us|µs|ns|s)")
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
STOPPED_BY_SIGTERM = 128 + signal.SIGTERM


class Failure(Exception):
    """The checkup found a problem; the text becomes the failure reason.

    Begin with the part that it is about: "input: …", "setup: …" or "check: …".
    """


class Refused(Exception):
    """The API server rejected a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Stopped(BaseException):
    """The pod is being terminated: the timeout is reached, or the Checkup was deleted."""


class Api:
    """Client for the API server with the pod's ServiceAccount."""

    def __init__(
        self, host: str, port: int, account: Path = ACCOUNT, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._host, self._port, self._account, self._sleep = host, port, account, sleep

    @classmethod
    def in_cluster(cls, environment: Mapping[str, str]) -> Api:
        """Return a client with the address from the pod's environment."""
        host = environment.get("KUBERNETES_SERVICE_HOST")
        if not host:
            raise Failure("setup: KUBERNETES_SERVICE_HOST is not set; run this image in a cluster")
        account = Path(environment.get("KIAGNOSE_ACCOUNT", str(ACCOUNT)))
        return cls(host, int(environment.get("KUBERNETES_SERVICE_PORT", "443")), account)

    def request(self, method: str, path: str, body: Any = None, form: str = "application/json") -> Any:
        """Send a request; retry for a while if the server is unavailable or busy."""
        deadline = time.monotonic() + RETRY_SECONDS
        pause = 0.2
        while True:
            try:
                return self._send(method, path, body, form)
            except (OSError, http.client.HTTPException) as error:
                problem: Exception = error
            except Refused as error:
                if error.code != TOO_MANY and error.code < SERVER_ERROR:
                    raise
                problem = error
            if time.monotonic() + pause > deadline:
                raise problem
            self._sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _send(self, method: str, path: str, body: Any, form: str) -> Any:
        # Read the token for every request, because the kubelet renews it.
        token = (self._account / "token").read_text().strip()
        tls = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=REQUEST_SECONDS, context=tls)
        try:
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Content-Type": form}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise Refused(answer.status, f"{method} {path}: {answer.status}: {_message(content)}")
        kind = answer.headers.get("Content-Type", "")
        return json.loads(content) if kind.startswith("application/json") else content.decode()


class Run:
    """One run of a checkup: its parameters, and its results so far."""

    def __init__(self, environment: Mapping[str, str], api: Api) -> None:
        self.api = api
        self._environment = environment
        self._uses_configmap = "CONFIGMAP_NAME" in environment
        prefix = "" if self._uses_configmap else "RESULT_"
        try:
            self.namespace = environment[f"{prefix}CONFIGMAP_NAMESPACE"]
            self.configmap = environment[f"{prefix}CONFIGMAP_NAME"]
        except KeyError as error:
            raise Failure(f"setup: {error.args[0]} is not set; run this image as a Checkup") from error
        self.configmap_uid = ""
        self._given: dict[str, str] = {}
        self._found: dict[str, str] = {}
        self._started = time.monotonic()

    def start(self) -> None:
        """Read the parameters and mark the ConfigMap as started, if it holds parameters."""
        if not self._uses_configmap:
            return
        found = self.api.request("GET", self._path)
        self._given = found.get("data") or {}
        self.configmap_uid = found["metadata"]["uid"]
        if not self._given:
            raise Refused(
                CONFLICT, f"ConfigMap {self.configmap} has no data; delete the Checkup and create it again"
            )
        if STARTED in self._given:
            raise Refused(
                CONFLICT,
                f"ConfigMap {self.configmap} is already in use; delete the Checkup and create it again",
            )
        self._mark(_now(), found["metadata"]["resourceVersion"])

    def _mark(self, moment: str, version: str) -> None:
        """Write the start time with the resourceVersion that was read: only one of two pods succeeds."""
        try:
            self._merge({STARTED: moment}, version)
        except Refused as error:
            # The write may have succeeded although its response was lost.
            if error.code != CONFLICT or self._stored().get(STARTED) != moment:
                raise

    def _stored(self) -> dict[str, str]:
        return self.api.request("GET", self._path).get("data") or {}

    def param(self, name: str, default: str | None = None) -> str:
        """Return a parameter; without a default it is required."""
        found = self._given.get(f"spec.param.{name}", self._environment.get(name.upper(), default))
        if found is None:
            raise Failure(f"input: parameter {name} is missing; add it to spec.params")
        return found

    def number(self, name: str, default: float | None = None) -> float:
        """Return a parameter that is a number."""
        text = self.param(name, None if default is None else str(default))
        try:
            return float(text)
        except ValueError:
            raise Failure(f"input: parameter {name} is {text!r}, which is not a number; correct it") from None

    def remaining(self) -> float | None:
        """Return the seconds left until the timeout, if it is known."""
        timeout = seconds(self._given.get("spec.timeout", ""))
        return None if timeout is None else timeout - (time.monotonic() - self._started)

    def result(self, key: str, value: Any) -> None:
        """Record a result; it is sent at the end, or by `publish`."""
        name = f"status.result.{key}"
        if not KEY.fullmatch(name) or len(name) > LONGEST_KEY:
            raise ValueError(f"{key!r} cannot name a result: use letters, digits, '-', '_' and '.'")
        self._found[name] = _text(value)

    def forget_results(self) -> None:
        """Drop the recorded results."""
        self._found.clear()

    def publish(self) -> None:
        """Send the results so far; the Checkup's status shows them while it runs."""
        self._merge(dict(self._found))

    def finish(self, failure: str = "") -> None:
        """Send all results and the verdict."""
        verdict = {"status.succeeded": _text(not failure), "status.failureReason": failure}
        if self._uses_configmap:
            verdict["status.completionTimestamp"] = _now()
        self._merge({**self._found, **verdict})

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{self.configmap}"

    def _merge(self, data: dict[str, str], version: str = "") -> None:
        metadata = {"metadata": {"resourceVersion": version}} if version else {}
        self.api.request("PATCH", self._path, {**metadata, "data": data}, MERGE)


def main(check: Callable[[Run], None]) -> NoReturn:
    """Run a checkup in a pod and exit: 0 it passed, 1 it failed, 2 it could not be run or reported."""
    # As PID 1 of a container, a program without a handler ignores SIGTERM.
    signal.signal(signal.SIGTERM, _stop)
    try:
        environment = dict(os.environ)
        run = Run(environment, Api.in_cluster(environment))
        sys.exit(execute(check, run))
    except (Failure, Refused, OSError, http.client.HTTPException) as error:
        say(f"cannot run: {error}")
        sys.exit(2)
    except Stopped:
        say("stopped by SIGTERM, without a verdict")
        sys.exit(STOPPED_BY_SIGTERM)


def execute(check: Callable[[Run], None], run: Run) -> int:
    """Run a checkup and report; return the exit code."""
    run.start()
    try:
        check(run)
        failure = ""
    except Failure as finding:
        failure = str(finding) or "check: failed without a reason"
    except Exception as error:
        # Report an error of the checkup itself as the failure reason, too.
        failure = f"check: {type(error).__name__}: {error}"
    try:
        run.finish(failure)
    except Refused as error:
        if error.code in PERMANENT_ERRORS:
            raise
        # The results are probably too large: report at least the reason.
        run.forget_results()
        failure = f"check: the results cannot be stored: {error}"[:LONGEST_REASON]
        run.finish(failure)
    say(f"failed: {failure}" if failure else "passed")
    return 1 if failure else 0


def say(text: str) -> None:
    """Write a line to the log, which is kept as evidence when a checkup does not pass."""
    print(text, flush=True)


def seconds(duration: str) -> float | None:
    """Return a duration such as 1m30s in seconds; None if it cannot be parsed."""
    parts = DURATION.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        return None
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace").strip() or "no error message"
