"""What kubeconfig files and in-cluster files say, and what is said of bad ones."""

import base64
import copy
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from quintet.kube import config
from quintet.kube.config import ClusterConfig
from quintet.kube.errors import ConfigError

PLAIN: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {},
    "current-context": "home",
    "contexts": [
        {"name": "home", "context": {"cluster": "near", "user": "me", "namespace": "mine"}},
        {"name": "work", "context": {"cluster": "far", "user": "me"}},
    ],
    "clusters": [
        {"name": "near", "cluster": {"server": "https://near:6443"}},
        {"name": "far", "cluster": {"server": "https://far"}},
    ],
    "users": [{"name": "me", "user": {"token": "secret"}}],
}


def written(path: Path, content: Any = PLAIN, **user: Any) -> Path:
    content = copy.deepcopy(content)
    if user:
        content["users"][0]["user"] = user
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def with_cluster(**cluster: Any) -> dict[str, Any]:
    content = copy.deepcopy(PLAIN)
    content["clusters"][0]["cluster"] |= {name.replace("_", "-"): value for name, value in cluster.items()}
    return content


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_load_uses_current_context_unless_another_is_given(tmp_path):
    path = str(written(tmp_path / "config"))

    home, work = config.load(path), config.load(path, "work")

    assert (home.server, home.namespace, home.source) == ("https://near:6443", "mine", path)
    assert (work.server, work.namespace) == ("https://far", "default")
    assert await home.credentials.header() == "Bearer secret"


def test_explicit_path_takes_precedence_over_kubeconfig_variable(tmp_path):
    path = written(tmp_path / "config")

    assert config.load(str(path), environ={"KUBECONFIG": "/elsewhere"}).source == str(path)


def test_load_falls_back_to_file_in_home_directory(tmp_path):
    path = written(tmp_path / ".kube" / "config")

    assert config.load(environ={"HOME": str(tmp_path)}).source == str(path)


def test_first_of_several_files_wins_when_merging(tmp_path):
    first = written(
        tmp_path / "a",
        {
            "clusters": [{"name": "near", "cluster": {"server": "https://first"}}],
            "contexts": None,
            "users": None,
        },
    )
    second = written(tmp_path / "b")
    empty = tmp_path / "c"
    empty.touch()
    names = f"{first}:{tmp_path / 'missing'}:{empty}:{second}:"

    loaded = config.load(environ={"KUBECONFIG": names})

    assert (loaded.server, loaded.namespace) == ("https://first", "mine")
    assert loaded.source == names.rstrip(":")


def test_paths_in_kubeconfig_are_relative_to_the_file(tmp_path, pair):
    content = with_cluster(certificate_authority="pki/ca.crt")
    content["users"][0]["user"] = {"client-certificate": "me.crt", "client-key": "pki/me.key"}
    path = written(tmp_path / "deep" / "config", content)
    (path.parent / "pki").mkdir()
    (path.parent / "pki" / "ca.crt").write_bytes(b"authority")
    (path.parent / "me.crt").write_bytes(pair.certificate)
    (path.parent / "pki" / "me.key").write_bytes(pair.key)

    loaded = config.load(str(path))

    assert (loaded.ca_data, loaded.client_cert, loaded.client_key) == (
        b"authority",
        pair.certificate,
        pair.key,
    )


def test_inline_data_takes_precedence_over_paths_and_may_contain_line_breaks(tmp_path, pair):
    wrapped = "\n".join(b64(pair.certificate)[i : i + 64] for i in range(0, 2000, 64))
    path = written(
        tmp_path / "config",
        with_cluster(certificate_authority="nowhere", certificate_authority_data=wrapped),
        **{"client-certificate-data": b64(pair.certificate), "client-key-data": b64(pair.key)},
    )

    loaded = config.load(str(path))

    assert (loaded.ca_data, loaded.client_cert, loaded.client_key) == (
        pair.certificate,
        pair.certificate,
        pair.key,
    )
    loaded.ssl_context()


def test_load_reads_tls_server_name_proxy_and_insecure_flag(tmp_path):
    content = with_cluster(
        insecure_skip_tls_verify=True, tls_server_name="inner.example", proxy_url="http://proxy:3128"
    )

    loaded = config.load(str(written(tmp_path / "config", content)))

    assert (loaded.insecure, loaded.tls_server_name, loaded.proxy_url) == (
        True,
        "inner.example",
        "http://proxy:3128",
    )
    assert not loaded.ssl_context().check_hostname


async def test_token_file_takes_precedence_over_token(tmp_path):
    (tmp_path / "token").write_text("fresh")

    loaded = config.load(str(written(tmp_path / "config", token="stale", tokenFile="token")))

    assert await loaded.credentials.header() == "Bearer fresh"


HEADERS = {
    "a token that YAML ends with a newline": ({"token": "secret\n"}, "Bearer secret"),
    "a name and a password": ({"username": "me", "password": "pass"}, f"Basic {b64(b'me:pass')}"),
    "nothing": ({"token": None}, None),
}


@pytest.mark.parametrize(("user", "want"), HEADERS.values(), ids=HEADERS)
async def test_user_gives_authorization_header(tmp_path, user, want):
    loaded = config.load(str(written(tmp_path / "config", **user)))

    assert await loaded.credentials.header() == want


async def test_context_without_user_has_no_credentials(tmp_path):
    content = copy.deepcopy(PLAIN)
    del content["contexts"][0]["context"]["user"]

    assert await config.load(str(written(tmp_path / "config", content))).credentials.header() is None


async def test_plugin_with_relative_path_gets_arguments_environment_and_cluster(tmp_path):
    plugin = tmp_path / "bin" / "plugin"
    plugin.parent.mkdir()
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "cluster = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']['cluster']\n"
        "token = '-'.join([*sys.argv[1:], os.environ['WHO'], cluster['server']])\n"
        "print(json.dumps({'status': {'token': token}}))\n"
    )
    plugin.chmod(0o700)
    section = {
        "command": "bin/plugin",
        "args": ["a", "b"],
        "env": [{"name": "WHO", "value": "me"}],
        "apiVersion": "client.authentication.k8s.io/v1",
        "provideClusterInfo": True,
    }

    loaded = config.load(str(written(tmp_path / "config", exec=section)))

    assert await loaded.credentials.header() == "Bearer a-b-me-https://near:6443"


def changed(**top: Any) -> dict[str, Any]:
    return copy.deepcopy(PLAIN) | {name.replace("_", "-"): value for name, value in top.items()}


BAD = {
    "no current context": (changed(current_context=""), "no current context", "home, work"),
    "an unknown context": (changed(current_context="moon"), "no context 'moon'", "home, work"),
    "an unknown cluster": (changed(clusters=[{"name": "x"}, {"name": "y"}]), "no cluster 'near'", "x, y"),
    "an unknown user": (changed(users=None), "no user 'me'", "none"),
    "no server": (changed(clusters=[{"name": "near"}]), "server '' is not a valid URL", "https://"),
    "server without a scheme": (
        with_cluster(server="near:6443"),
        "'near:6443' is not a valid URL",
        "https://",
    ),
    "invalid port": (with_cluster(server="https://near:99999"), "is not a valid URL", "https://"),
    "a proxy that is not HTTP": (with_cluster(proxy_url="socks5://p"), "proxy-url 'socks5://p'", "http://"),
    "CA data is not base64": (
        with_cluster(certificate_authority_data="%%%"),
        "certificate-authority-data is not base64",
        "download",
    ),
    "an authority that is not there": (
        with_cluster(certificate_authority="gone.crt"),
        r"cannot read certificate-authority .*gone.crt \(No such file",
        "check the path",
    ),
    "a list instead of a mapping": (
        [1],
        r"is not a valid kubeconfig \(Expected `object`, got `array`",
        "fix",
    ),
    "a string instead of a list": (changed(users="me"), r"got `str` - at `\$.users`", "fix"),
    "a number as a name": (changed(users=[{"name": 7}]), r"got `int` - at `\$.users\[0\].name`", "fix"),
}


@pytest.mark.parametrize(("content", "want_message", "want_step"), BAD.values(), ids=BAD)
def test_invalid_kubeconfig_raises_error_with_next_step(tmp_path, content, want_message, want_step):
    path = written(tmp_path / "config", content)

    with pytest.raises(ConfigError, match=want_message) as caught:
        config.load(str(path))

    assert str(path) in caught.value.message
    assert want_step in caught.value.next_step


BAD_USERS = {
    "an auth-provider": ({"auth-provider": {"name": "oidc"}}, "auth-provider is no longer supported"),
    "groups without a user to impersonate": ({"token": "t", "as-groups": ["a"]}, "need `as`"),
    "a line break in a user to impersonate": ({"token": "t", "as": "a\nb"}, "cannot be impersonated"),
    "a plugin without a command": ({"exec": {"command": ""}}, "exec has no command"),
    "a plugin with a variable without a value": (
        {"exec": {"command": "x", "env": [{"name": "A"}]}},
        "missing required field `value`",
    ),
    "a certificate without its key": ({"client-certificate-data": b64(b"x")}, "but no client key"),
    "a key without its certificate": ({"client-key-data": b64(b"x")}, "but no client certificate"),
    "key data is not base64": ({"client-key-data": "%%%"}, "client-key-data is not base64"),
}


@pytest.mark.parametrize(("user", "want"), BAD_USERS.values(), ids=BAD_USERS)
def test_invalid_user_raises_error(tmp_path, user, want):
    with pytest.raises(ConfigError, match=want):
        config.load(str(written(tmp_path / "config", **user)))


def test_unreadable_kubeconfig_raises_error_with_reason(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read kubeconfig .* \(Is a directory\)"):
        config.load(str(tmp_path))


@pytest.mark.parametrize("names", ["gone", "gone:away"])
def test_missing_kubeconfigs_are_listed_in_the_error(names):
    with pytest.raises(ConfigError, match=f"kubeconfig {names} does not exist"):
        config.load(environ={"KUBECONFIG": names})


def test_invalid_yaml_error_has_line_number(tmp_path):
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\nusers: [\n  - {\n")

    with pytest.raises(ConfigError, match=r"is not valid YAML at line \d"):
        config.load(str(path))


def test_load_without_any_configuration_suggests_how_to_get_one(tmp_path):
    with pytest.raises(ConfigError, match="no cluster is configured") as caught:
        config.load(environ={"HOME": str(tmp_path)})

    assert "quintet up" in caught.value.next_step


@pytest.fixture
def pod(tmp_path, pair) -> Path:
    """The files that the kubelet mounts into every pod."""
    (tmp_path / "ca.crt").write_bytes(pair.certificate)
    (tmp_path / "namespace").write_text("shop\n")
    (tmp_path / "token").write_text("issued")
    return tmp_path


@pytest.mark.parametrize(
    ("host", "port", "want"),
    [("10.0.0.1", None, "https://10.0.0.1:443"), ("fd00::1", "6443", "https://[fd00::1]:6443")],
)
async def test_in_cluster_configuration_has_server_namespace_and_token(pod, host, port, want, pair):
    environ = {"KUBERNETES_SERVICE_HOST": host} | ({"KUBERNETES_SERVICE_PORT": port} if port else {})

    loaded = config.in_cluster(environ, pod)

    assert (loaded.server, loaded.namespace, loaded.ca_data) == (want, "shop", pair.certificate)
    assert await loaded.credentials.header() == "Bearer issued"


def test_in_cluster_configuration_precedes_home_directory_but_not_explicit_context(pod):
    written(pod / ".kube" / "config")
    environ = {"HOME": str(pod), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}

    assert config.load(environ=environ, service_account=pod).server == "https://10.0.0.1:443"
    assert config.load(context="work", environ=environ, service_account=pod).server == "https://far"


def test_missing_service_account_files_raise_error_with_next_step(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the ServiceAccount files") as caught:
        config.in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)

    assert "automountServiceAccountToken" in caught.value.next_step


MATERIAL = {
    "a key of another certificate": ("key", lambda make: make().key, "key values mismatch"),
    "a key with a password": ("key", lambda make: make(password=b"x").key, "cannot be used"),
    "certificate is not PEM": ("certificate", lambda make: b"invalid", "cannot be used"),
}


@pytest.mark.parametrize(("part", "made", "want"), MATERIAL.values(), ids=MATERIAL)
def test_invalid_client_certificate_raises_error_with_reason(make_pair, pair, part, made, want):
    files = {"certificate": pair.certificate, "key": pair.key} | {part: made(make_pair)}
    loaded = ClusterConfig(
        "https://x", client_cert=files["certificate"], client_key=files["key"], source="here"
    )

    with pytest.raises(ConfigError, match=f"here: the client certificate and key.*{want}|{want}"):
        loaded.ssl_context()


def test_invalid_ca_raises_error():
    with pytest.raises(ConfigError, match="certificate authority is not a PEM certificate"):
        ClusterConfig("https://x", ca_data=b"invalid", source="here").ssl_context()


def test_ca_may_contain_comments_in_any_encoding(pair):
    bundle = "# Grüße\n".encode() + pair.certificate

    assert ClusterConfig("https://x", ca_data=bundle).ssl_context().cert_store_stats()["x509"] == 1


def test_expired_client_certificate_is_reported_with_date(make_pair):
    end = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)
    old = make_pair(not_after=end)
    loaded = ClusterConfig("https://x", client_cert=old.certificate, client_key=old.key, source="here")

    assert loaded.expiry_problem() == "the client certificate in here expired on 2025-03-01 12:30 UTC"
    assert loaded.expiry_problem(datetime(2025, 3, 1, 12, 29, tzinfo=UTC)) is None


def test_expiry_problem_without_valid_client_certificate(pair):
    assert ClusterConfig("https://x").expiry_problem() is None
    broken = ClusterConfig("https://x", client_cert=b"invalid", client_key=pair.key, source="here")
    assert broken.expiry_problem() == "the client certificate in here cannot be read"


def test_kubeconfig_may_be_json(tmp_path):
    path = tmp_path / "config"
    path.write_text(json.dumps(PLAIN))

    assert config.load(str(path)).server == "https://near:6443"
