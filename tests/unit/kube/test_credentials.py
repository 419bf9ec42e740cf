"""Where the `Authorization` header comes from, and when it is asked for anew."""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kit.eventually import eventually
from quintet.kube.credentials import Anonymous, ExecPlugin, FileToken, Plugin, StaticHeader
from quintet.kube.errors import ConfigError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class HandClock:
    """A clock that moves only when told to."""

    def __init__(self, seconds: float = 1000.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


async def test_client_certificate_and_static_token_are_not_renewed():
    assert (await Anonymous().header(), await Anonymous().renew(None)) == (None, False)
    fixed = StaticHeader("Bearer secret")
    assert (await fixed.header(), await fixed.renew("Bearer secret")) == ("Bearer secret", False)


def test_static_header_repr_hides_the_token():
    assert "secret" not in repr(StaticHeader("Bearer secret"))


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("one\n")
    return path


def holds(path: Path, content: str | None) -> None:
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_text(content)


async def test_token_file_is_read_again_after_a_minute(token: Path):
    clock = HandClock()
    credentials = FileToken(token, clock)
    assert await credentials.header() == "Bearer one"
    holds(token, "two")

    clock.seconds += 60.0
    assert await credentials.header() == "Bearer one"
    clock.seconds += 0.1
    assert await credentials.header() == "Bearer two"


async def test_rejected_token_is_read_again_immediately(token: Path):
    credentials = FileToken(token, HandClock())
    await credentials.header()
    holds(token, "two")

    assert await credentials.renew("Bearer one")
    assert await credentials.header() == "Bearer two"


async def test_unchanged_rejected_token_is_not_retried(token: Path):
    credentials = FileToken(token, HandClock())
    await credentials.header()

    assert not await credentials.renew("Bearer one")


async def test_two_rejected_requests_both_get_the_new_token(token: Path):
    credentials = FileToken(token, HandClock())
    await credentials.header()
    holds(token, "two")

    assert await credentials.renew("Bearer one")
    assert await credentials.renew("Bearer one"), "the second sees that the first has renewed"


async def test_deleted_token_file_keeps_the_last_token(token: Path):
    clock = HandClock()
    credentials = FileToken(token, clock)
    await credentials.header()

    holds(token, None)
    clock.seconds += 61.0
    assert await credentials.header() == "Bearer one"
    holds(token, "")
    clock.seconds += 61.0
    assert await credentials.header() == "Bearer one"


@pytest.mark.parametrize(
    ("content", "want"), [(None, "No such file"), (b" \n", "the file is empty"), (b"\xff", "can't decode")]
)
async def test_token_file_without_token_raises_config_error(tmp_path, content, want):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=want):
        await FileToken(path).header()


class Script:
    """A credential plugin that counts its runs and remembers what it was told."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "runs"
        self.answer = directory / "answer"
        self.path = directory / "plugin.py"
        self.path.write_text(
            "import os, pathlib, sys\n"
            f"with open({str(self.log)!r}, 'a') as log:\n"
            "    log.write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
            f"exec(pathlib.Path({str(self.answer)!r}).read_text())\n"
        )

    def prints(self, text: str) -> None:
        self.answer.write_text(f"print({text!r})")

    def issues(self, token: str, *, expires: datetime | None = None) -> None:
        status = {"token": token, **({"expirationTimestamp": expires.isoformat()} if expires else {})}
        self.prints(json.dumps({"kind": "ExecCredential", "status": status}))

    def plugin(self, **options: object) -> Plugin:
        return Plugin(argv=(sys.executable, str(self.path)), hint="install it", **options)

    @property
    def told(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


async def test_plugin_runs_once_while_its_token_is_valid(script: Script):
    script.issues("one")
    credentials = ExecPlugin(script.plugin())

    answers = await asyncio.gather(*(credentials.header() for _ in range(5)))

    assert answers == ["Bearer one"] * 5
    assert len(script.told) == 1


async def test_plugin_runs_again_shortly_before_its_token_expires(script: Script):
    clock = HandClock(NOON.timestamp())
    script.issues("one", expires=NOON + timedelta(minutes=10))
    credentials = ExecPlugin(script.plugin(), clock)
    await credentials.header()
    script.issues("two", expires=NOON + timedelta(minutes=20))

    clock.seconds += 600 - 30
    assert await credentials.header() == "Bearer one"
    clock.seconds += 0.1
    assert await credentials.header() == "Bearer two"
    assert len(script.told) == 2


async def test_plugin_runs_once_when_several_requests_are_rejected(script: Script):
    script.issues("one")
    credentials = ExecPlugin(script.plugin())
    refused = await credentials.header()
    script.issues("two")

    assert await credentials.renew(refused)
    assert await credentials.header() == "Bearer two"
    assert await credentials.renew(refused)
    assert await credentials.header() == "Bearer two"
    assert len(script.told) == 2


async def test_plugin_gets_api_version_and_optional_cluster_info(script: Script):
    script.issues("one")
    await ExecPlugin(script.plugin(api_version="client.authentication.k8s.io/v1beta1")).header()
    await ExecPlugin(script.plugin(cluster={"server": "https://a"})).header()

    plain, informed = script.told
    assert plain == {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    assert informed["spec"] == {"interactive": False, "cluster": {"server": "https://a"}}


async def test_plugin_environment_extends_process_environment(script: Script):
    script.answer.write_text(
        "print('{\"status\":{\"token\":\"' + os.environ['WHO'] + str('PATH' in os.environ) + '\"}}')"
    )

    assert await ExecPlugin(script.plugin(environ={"WHO": "me"})).header() == "Bearer meTrue"


FAILURES = {
    "fails": ("sys.exit('first line\\nnot logged in')", r"exited with 1 \(not logged in\)"),
    "fails silently": ("sys.exit(3)", r"exited with 3 \(no output\)"),
    "prints text": ("print('Welcome!')", "did not print a valid ExecCredential"),
    "prints invalid UTF-8": (
        'sys.stdout.buffer.write(b\'{"a":"\\xff"}\')',
        "did not print a valid ExecCredential",
    ),
    "prints nothing": ("pass", "did not print a valid ExecCredential"),
    "prints no status": ("print('{}')", r"did not print a valid ExecCredential .*status"),
    "prints a null token": ('print(\'{"status":{"token":null}}\')', "did not print a valid ExecCredential"),
    "prints an invalid expiry time": (
        'print(\'{"status":{"token":"a","expirationTimestamp":"soon"}}\')',
        "did not print a valid ExecCredential",
    ),
}


@pytest.mark.parametrize(("code", "want"), FAILURES.values(), ids=FAILURES)
async def test_plugin_without_token_raises_error_with_reason(script: Script, code: str, want: str):
    script.answer.write_text(code)

    with pytest.raises(ConfigError, match=want):
        await ExecPlugin(script.plugin()).header()


async def test_missing_plugin_error_has_install_hint():
    plugin = Plugin(argv=("no-such-plugin",), hint="see the provider's manual")

    with pytest.raises(ConfigError, match="cannot run credential plugin no-such-plugin") as caught:
        await ExecPlugin(plugin).header()

    assert caught.value.next_step == "see the provider's manual"


async def test_plugin_timeout_kills_plugin_and_its_children(script: Script, tmp_path: Path):
    pids = tmp_path / "pids"
    script.answer.write_text(
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(pids)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n"
    )
    credentials = ExecPlugin(script.plugin(timeout=1.0))

    with pytest.raises(ConfigError, match="did not finish within 1 s"):
        await credentials.header()

    def ended() -> None:
        # No file: it was ended before it began.
        left = [pid for pid in pids.read_text().split() if _runs(pid)] if pids.exists() else []
        assert not left, f"still running: {left}"

    await eventually(ended)


def _runs(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def test_plugin_may_issue_a_certificate_instead_of_a_token(script: Script):
    script.prints(json.dumps({"status": {"clientCertificateData": "CERT", "clientKeyData": "KEY"}}))
    credentials = ExecPlugin(script.plugin())

    assert await credentials.header() is None
    assert credentials.certificate == (b"CERT", b"KEY")
    await credentials.header()
    assert len(script.told) == 1


@pytest.mark.parametrize("status", [{}, {"clientCertificateData": "C"}, {"clientKeyData": "K"}])
async def test_plugin_without_usable_credentials_is_reported(script: Script, status):
    script.prints(json.dumps({"status": status}))

    with pytest.raises(ConfigError, match="neither a token nor a client certificate"):
        await ExecPlugin(script.plugin()).header()
