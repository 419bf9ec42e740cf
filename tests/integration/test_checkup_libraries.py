"""The shell and Python libraries for checkup authors on a real API server.

The echo checkups of images/checkups run here as plain processes, with the token of a ServiceAccount that has exactly the
permissions of a Checkup's.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kit.cluster.access_reviews import service_account_user as account_of
from kit.cluster.access_reviews import wait_until_allowed
from kit.cluster.kubeconfig import Access
from kit.eventually import eventually
from kit.faults.proxy import Answer, DropReply, FaultProxy, Refuse, matching

ROOT = Path(__file__).parents[2]
CHECKUPS = ROOT / "images/checkups"
NAME = "checkup-results"
SHELL_TOOLS = ("awk", "cat", "date", "printenv", "sh", "sleep", "timeout", "tr", "wc")
# Characters that need escaping in JSON, shell, awk or HTTP.
AWKWARD = 'a "quoted" \\ back\\slash\tÄ \N{GRINNING FACE} & <b> %s $HOME `id` =\n\nlast line \x01'
WRITES = matching("patch", "configmaps")


@dataclass
class Scene:
    """A results ConfigMap, a ServiceAccount that can write it, and the environment of its pod."""

    api: object
    path: str
    environment: dict[str, str]
    scratch: Path
    commands: dict[str, list[str]] = field(default_factory=dict)

    async def run(self, way: str, contract: str = "A", **params: str) -> tuple[int, str]:
        """Run the echo checkup and return exit code and output."""
        environment = dict(self.environment)
        prefix = "RESULT_" if contract == "A" else ""
        environment |= {
            f"{prefix}CONFIGMAP_NAME": NAME,
            f"{prefix}CONFIGMAP_NAMESPACE": self.path.split("/")[4],
        }
        environment |= {name.upper(): value for name, value in params.items()}
        environment["PATH"] = str(self.scratch / way)
        process = await asyncio.create_subprocess_exec(
            *self.commands[way],
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(120):
            output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def data(self) -> dict[str, str]:
        return (await self.api.get(self.path)).get("data", {})

    async def fill(self, **data: str) -> None:
        await self.api.merge(
            self.path, {"data": {name.replace("_", "."): text for name, text in data.items()}}
        )


def tools(folder: Path, *names: str) -> None:
    folder.mkdir()
    for name in names:
        found = shutil.which(name)
        if not found:
            pytest.skip(f"{name} is not on this machine")
        (folder / name).symlink_to(found)


def skip_pauses(folder: Path) -> Path:
    """Replace `sleep` by a program that returns at once; return the file in which it records its arguments."""
    (folder / "sleep").unlink()
    (folder / "sleep").write_text(f'#!/bin/sh\necho "$1" >> {folder}/pauses\n')
    (folder / "sleep").chmod(0o755)
    return folder / "pauses"


def shell_checkup(folder: Path, body: str) -> list[str]:
    """Write a shell checkup that sources the library."""
    script = folder / "checkup"
    script.write_text(body.replace("/usr/local/lib/kiagnose.sh", str(CHECKUPS / "lib/kiagnose.sh")))
    return ["sh", str(script)]


@pytest.fixture
async def scene(api, namespace, proxy: FaultProxy, tmp_path) -> Scene:
    base = f"/api/v1/namespaces/{namespace}"
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    await api.create(f"{base}/serviceaccounts", {"metadata": {"name": "echo"}})
    await api.create(f"{base}/configmaps", {"metadata": {"name": NAME}})
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [NAME],
        "verbs": ["get", "update", "patch"],
    }
    await api.create(f"{roles}/roles", {"metadata": {"name": "echo"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "echo"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "echo"},
        "subjects": [{"kind": "ServiceAccount", "name": "echo", "namespace": namespace}],
    }
    await api.create(f"{roles}/rolebindings", binding)
    user = account_of(namespace, "echo")
    await wait_until_allowed(api, user, "patch", "configmaps", namespace=namespace, name=NAME)
    token = await api.create(f"{base}/serviceaccounts/echo/token", {"spec": {}})
    account = tmp_path / "account"
    account.mkdir()
    access = Access.read(proxy.write_kubeconfig(tmp_path, token=token["status"]["token"]))
    (account / "token").write_text(access.token or "")
    (account / "ca.crt").write_bytes(access.authority or b"")
    host, port = access.server.removeprefix("https://").split(":")
    environment = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KIAGNOSE_ACCOUNT": str(account),
        "PYTHONPATH": str(CHECKUPS / "lib"),
    }
    made = Scene(api, f"{base}/configmaps/{NAME}", environment, tmp_path)
    tools(tmp_path / "openssl", "openssl", *SHELL_TOOLS)
    tools(tmp_path / "curl", "curl", *SHELL_TOOLS)
    tools(tmp_path / "python")
    shell = shell_checkup(tmp_path, (CHECKUPS / "echo/echo").read_text())
    made.commands = {
        "openssl": [f"{tmp_path}/openssl/{shell[0]}", shell[1]],
        "curl": [f"{tmp_path}/curl/{shell[0]}", shell[1]],
        "python": [sys.executable, str(CHECKUPS / "echo-configmap/echo.py")],
    }
    return made


WAYS = pytest.mark.parametrize("way", ["openssl", "curl", "python"])


@WAYS
@pytest.mark.parametrize(
    "message",
    [
        pytest.param("Hi!", id="plain", marks=pytest.mark.exhaustive),
        pytest.param("", id="empty"),
        pytest.param(AWKWARD, id="special characters"),
    ],
)
async def test_echo_checkup_returns_message_byte_for_byte(scene, way, message):
    code, output = await scene.run(way, message=message)
    assert code == 0, output
    want = {"status.succeeded": "true", "status.failureReason": "", "status.result.echo": message}
    assert await scene.data() == want


@WAYS
async def test_large_results_are_stored_completely(scene, way):
    # An environment variable cannot be longer than 128 KiB.
    message = '"0123456789abc"\\' * 7000
    code, output = await scene.run(way, message=message)
    assert code == 0, output
    assert (await scene.data())["status.result.echo"] == message


@WAYS
async def test_failure_is_reported_with_reason(scene, way):
    code, output = await scene.run(
        way, message="Hi!", failure="check: the echo is broken, look into the cave"
    )
    assert code == 1, output
    data = await scene.data()
    assert data["status.succeeded"] == "false"
    assert data["status.failureReason"] == "check: the echo is broken, look into the cave"
    assert "status.result.echo" not in data


@WAYS
async def test_missing_parameter_is_named(scene, way):
    code, output = await scene.run(way)
    assert code == 1, output
    reason = (await scene.data())["status.failureReason"]
    assert reason == "input: parameter message is missing; add it to spec.params"


async def test_python_checkup_reads_configmap_params_and_writes_both_timestamps(scene):
    await scene.fill(spec_timeout="1m0s", spec_param_message=AWKWARD)
    code, output = await scene.run("python", "B")
    assert code == 0, output
    data = await scene.data()
    assert data["status.result.echo"] == AWKWARD
    assert data["status.startTimestamp"] <= data["status.completionTimestamp"]
    assert data["spec.param.message"] == AWKWARD


@WAYS
async def test_used_configmap_is_rejected_and_not_changed(scene, way, tmp_path):
    used = {"spec_param_message": "Hi!", "status_startTimestamp": "2022-06-06T10:59:58Z"}
    await scene.fill(**used)
    before = await scene.data()
    if way != "python":
        scene.commands[way][-1] = shell_checkup(tmp_path, STRICT)[1]
    code, output = await scene.run(way, "B")
    assert code == 2, output
    assert f"ConfigMap {NAME} is already in use; delete the Checkup and create it again" in output
    assert await scene.data() == before


STRICT = """
set -eu
. /usr/local/lib/kiagnose.sh
kiagnose_start
message=$(kiagnose_param message) || exit
kiagnose_result echo "$message"
kiagnose_result other "$(kiagnose_param other 'a default')"
kiagnose_succeed
"""


@pytest.mark.parametrize("way", ["openssl", "curl"])
async def test_shell_checkup_supports_configmap_contract(scene, way, tmp_path):
    # A shell strips a final newline and cannot hold NUL and \\x01.
    message = AWKWARD.rstrip("\x01")
    await scene.fill(spec_param_message=message, spec_timeout="1m0s")
    scene.commands[way][-1] = shell_checkup(tmp_path, STRICT)[1]
    code, output = await scene.run(way, "B")
    assert code == 0, output
    data = await scene.data()
    assert (data["status.result.echo"], data["status.result.other"]) == (message, "a default")
    assert data["status.startTimestamp"] <= data["status.completionTimestamp"]


FAULTS = {
    "busy": Answer(429, "TooManyRequests"),
    "away": Answer(503, "ServiceUnavailable"),
    "connection lost": Refuse(),
    "answer lost": DropReply(),
}
# Both shell variants use one library, which treats both responses and both losses alike.
RETRIED = [
    pytest.param(way, fault, id=f"{name}-{way}", marks=[pytest.mark.exhaustive] if again else [])
    for name, fault in FAULTS.items()
    for way in ("openssl", "curl", "python")
    for again in [name in ("away", "answer lost") and way != "openssl"]
]


@pytest.mark.parametrize(("way", "fault"), RETRIED)
async def test_write_that_fails_once_is_retried(scene, way, fault, proxy):
    injection = proxy.inject(fault, when=WRITES)
    pauses = skip_pauses(scene.scratch / way) if way != "python" else None
    code, output = await scene.run(way, message="Hi!")
    assert code == 0, output
    assert len(injection.hits) == 1
    assert pauses is None or pauses.read_text() == "1\n", "no pause before the retry"
    assert (await scene.data())["status.result.echo"] == "Hi!"


@pytest.mark.parametrize("way", ["openssl", "curl"])
@pytest.mark.parametrize("fault", [Refuse(), Answer(403, "Forbidden")], ids=["lost", "refused"])
async def test_shell_checkup_continues_when_partial_results_cannot_be_sent(scene, way, fault, proxy):
    injection = proxy.inject(fault, when=WRITES)
    # The echo script exits at the first unhandled error.
    code, output = await scene.run(way, message="Hi!", delay="0")
    assert code == 0, output
    assert len(injection.hits) == 1
    assert (await scene.data())["status.result.echo"] == "Hi!"


@WAYS
async def test_pod_without_token_reports_missing_token(scene, way):
    (scene.scratch / "account/token").unlink()
    scene.environment |= {"KIAGNOSE_ATTEMPTS": "1"}
    if way == "python":
        scene.commands[way] = [sys.executable, "-c", IMPATIENT]
    code, output = await scene.run(way, message="Hi!", delay="0")
    assert code == 2, output
    assert "/token" in output


async def test_start_whose_response_was_lost_is_recognised_as_own(scene, proxy):
    await scene.fill(spec_param_message="Hi!")
    proxy.inject(DropReply(), when=WRITES)
    code, output = await scene.run("python", "B")
    assert code == 0, output
    assert (await scene.data())["status.succeeded"] == "true"


@WAYS
async def test_missing_permission_to_write_results_is_reported_without_hanging(scene, way, api, namespace):
    await api.delete(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/echo")

    async def assert_rejected() -> None:
        code, output = await scene.run(way, message="Hi!")
        assert code == 2, output
        assert "403" in output
        assert "cannot patch resource" in output

    # The API server learns of the deletion with a short delay.
    await eventually(assert_rejected, within=120)


@WAYS
async def test_token_is_not_sent_to_server_with_untrusted_certificate(scene, way, cluster, proxy):
    stranger = Access.read(cluster.kubeconfig).authority
    (scene.scratch / "account/ca.crt").write_bytes(stranger or b"")
    scene.environment |= {"KIAGNOSE_ATTEMPTS": "1"}
    if way == "python":
        scene.commands[way] = [sys.executable, "-c", IMPATIENT]
    code, output = await scene.run(way, message="Hi!")
    assert code == 2, output
    assert [str(each.request) for each in proxy.trace.exchanges] == []


IMPATIENT = """
import kiagnose
kiagnose.PATIENCE_SECONDS = 0
kiagnose.main(lambda run: run.result("echo", "Hi!"))
"""


@WAYS
async def test_checkup_stops_at_once_without_verdict_on_sigterm(scene, way):
    environment = scene.environment | {"MESSAGE": "Hi!", "DELAY": "3600", "PATH": str(scene.scratch / way)}
    environment |= {"RESULT_CONFIGMAP_NAME": NAME, "RESULT_CONFIGMAP_NAMESPACE": scene.path.split("/")[4]}
    log = scene.scratch / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *scene.commands[way], env=environment, stdout=output, start_new_session=True
        )

    async def assert_published() -> None:
        assert "status.result.waiting" in await scene.data()

    try:
        await eventually(assert_published, within=60)
        process.terminate()
        async with asyncio.timeout(30):
            assert await process.wait() == 143
    finally:
        # Its background processes; in a container they end with it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert log.read_text().splitlines() == [
        "waiting 3600 seconds before saying 'Hi!'",
        "stopped by SIGTERM, without a verdict",
    ]
    assert await scene.data() == {"status.result.waiting": "3600"}


async def test_results_over_size_limit_fail_checkup_with_reason(scene):
    scene.commands["python"] = [sys.executable, "-c", TOO_MUCH]
    code, output = await scene.run("python")
    assert code == 1, output
    data = await scene.data()
    assert data["status.succeeded"] == "false"
    assert data["status.failureReason"].startswith("check: the results cannot be stored: PATCH ")
    assert not any(name.startswith("status.result.") for name in data)


TOO_MUCH = """
import kiagnose
kiagnose.main(lambda run: run.result("all", "x" * 2**21))
"""


async def test_exception_in_checkup_is_reported_as_failure_reason(scene):
    scene.commands["python"] = [sys.executable, "-c", "import kiagnose; kiagnose.main(lambda run: 1 / 0)"]
    code, output = await scene.run("python")
    assert code == 1, output
    assert (await scene.data())["status.failureReason"] == "check: ZeroDivisionError: division by zero"


async def test_library_outside_checkup_reports_what_is_missing(tmp_path):
    for command in (
        ["sh", str(CHECKUPS / "lib/kiagnose.sh")],
        [sys.executable, str(CHECKUPS / "echo-configmap/echo.py")],
    ):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKUPS / "lib")}
        environment["KUBERNETES_SERVICE_HOST"] = "127.0.0.1"
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        assert process.returncode == 2, output
        assert b"run this image as a Checkup" in output


def documented_program(language: str) -> str:
    """Return the program that the documentation shows in a language."""
    page = (ROOT / "docs/checkup-write-your-own.md").read_text()
    found = re.search(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found, language
    return found[1]


@pytest.mark.parametrize("way", ["openssl", "python"])
async def test_programs_in_documentation_run_as_shown(scene, way, tmp_path):
    if way == "python":
        scene.commands[way] = [sys.executable, "-c", documented_program("python")]
    else:
        (tmp_path / way / "getent").symlink_to(shutil.which("getent") or "")
        scene.commands[way][-1] = shell_checkup(tmp_path, documented_program("sh"))[1]
    # The API server serves as a reachable host.
    host, port = (scene.environment[f"KUBERNETES_SERVICE_{each}"] for each in ("HOST", "PORT"))
    code, output = await scene.run(way, host=host, port=port)
    assert code == 0, output
    assert (await scene.data())["status.result.address"] == host
    code, output = await scene.run(way, host=host, port="1")
    assert code == 1, output
    assert (await scene.data())["status.failureReason"].startswith(f"check: {host}:1 ")
