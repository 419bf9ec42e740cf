"""Each authentication method against a server that checks it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.cluster.api import Api
from kit.cluster.client import CONFIG_MAPS, connect, whoami
from quintet.kube import config
from quintet.kube.errors import Forbidden, Unauthorized
from quintet.local.cluster import Cluster


async def a_token(api: Api, namespace: str, name: str = "robot") -> str:
    """Create a ServiceAccount and return a token from the TokenRequest API."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": name}})
    issued = await api.create(
        f"{accounts}/{name}/token", {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
    )
    token: str = issued["status"]["token"]
    return token


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


Mount = Callable[[str], config.ClusterConfig]


@pytest.fixture
def mount(cluster: Cluster, tmp_path: Path, namespace: str) -> Mount:
    """Write the files of a ServiceAccount as the kubelet does, and load them."""

    def lay_out(token: str) -> config.ClusterConfig:
        write(tmp_path / "ca.crt", cluster.ca.read_text())
        write(tmp_path / "namespace", namespace)
        write(tmp_path / "token", token)
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(cluster.port)}
        return config.in_cluster(environ, tmp_path)

    return lay_out


async def test_pod_authenticates_as_its_service_account(api: Api, mount: Mount, namespace: str):
    found = mount(await a_token(api, namespace))

    async with connect(found) as client:
        user = await whoami(client)

    assert user.username == f"system:serviceaccount:{namespace}:robot"
    assert found.namespace == namespace


async def test_replaced_token_file_is_read_after_unauthorized(api, mount, namespace, tmp_path):
    async with connect(mount("outdated")) as client:
        with pytest.raises(Unauthorized):
            await whoami(client)
        write(tmp_path / "token", await a_token(api, namespace))

        user = await whoami(client)

    assert user.username == f"system:serviceaccount:{namespace}:robot"


async def test_watch_renews_token_after_unauthorized(api, mount, namespace, tmp_path):
    async with connect(mount("outdated")) as client:
        with pytest.raises(Unauthorized):
            await client.version()
        write(tmp_path / "token", await a_token(api, namespace))

        # The token is valid now but has no role: the error is another one.
        with pytest.raises(Forbidden):
            async with client.watch(CONFIG_MAPS, namespace=namespace):
                pass


def with_user(cluster: Cluster, path: Path, user: dict[str, object]) -> Path:
    content = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [
            {"name": "it", "cluster": {"server": cluster.server, "certificate-authority": str(cluster.ca)}}
        ],
        "users": [{"name": "it", "user": user}],
    }
    return write(path, json.dumps(content))


async def test_exec_plugin_supplies_token_and_runs_again_after_unauthorized(
    api, cluster, namespace, tmp_path
):
    write(tmp_path / "token", "outdated")
    code = (
        "import json, pathlib;"
        f"token = pathlib.Path({str(tmp_path / 'token')!r}).read_text();"
        "print(json.dumps({'kind': 'ExecCredential', 'status': {'token': token}}))"
    )
    user = {"exec": {"command": sys.executable, "args": ["-c", code], "interactiveMode": "Never"}}
    async with connect(with_user(cluster, tmp_path / "config", user)) as client:
        with pytest.raises(Unauthorized):
            await whoami(client)
        write(tmp_path / "token", await a_token(api, namespace))

        assert (await whoami(client)).username == f"system:serviceaccount:{namespace}:robot"


async def test_client_certificate_sets_user_and_groups(cluster: Cluster):
    async with connect(cluster.client_kubeconfig("carol", ("devs", "ops"))) as client:
        user = await whoami(client)

    assert user.username == "carol"
    assert {"devs", "ops"} <= set(user.groups)


async def test_client_certificate_is_read_from_files(cluster: Cluster, tmp_path: Path):
    certificate, key = cluster.certificate("dave")
    user = {"client-certificate": str(certificate), "client-key": str(key)}

    async with connect(with_user(cluster, tmp_path / "config", user)) as client:
        assert (await whoami(client)).username == "dave"


async def test_tls_server_name_overrides_host_name(cluster: Cluster, tmp_path: Path):
    path = cluster.client_kubeconfig("erin")
    content = json.loads(path.read_text())
    content["clusters"][0]["cluster"]["tls-server-name"] = "kubernetes.default.svc"

    async with connect(write(tmp_path / "config", json.dumps(content))) as client:
        assert (await whoami(client)).username == "erin"
