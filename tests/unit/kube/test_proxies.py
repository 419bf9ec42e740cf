"""Which proxy the environment names for an API server."""

import pytest

from quintet.kube.config import from_kubeconfig, in_cluster
from quintet.kube.proxies import find_proxy

FAR = "https://api.far.example:6443"


@pytest.mark.parametrize(
    ("server", "environ", "want"),
    [
        pytest.param(FAR, {}, None, id="nothing is set"),
        pytest.param(FAR, {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128", id="upper case"),
        pytest.param(FAR, {"https_proxy": "http://p:3128"}, "http://p:3128", id="lower case"),
        pytest.param(FAR, {"HTTPS_PROXY": "p:3128"}, "http://p:3128", id="without a scheme"),
        pytest.param(FAR, {"HTTP_PROXY": "http://p"}, None, id="that of another scheme"),
        pytest.param("http://a:8001", {"HTTP_PROXY": "http://p"}, "http://p", id="plain HTTP"),
        pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p"}, None, id="loopback address"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": "http://p"}, None, id="loopback address of IPv6"),
        pytest.param("https://localhost", {"HTTPS_PROXY": "http://p"}, None, id="localhost"),
    ],
)
def test_proxy_of_the_environment(server, environ, want):
    assert find_proxy(server, environ) == want


@pytest.mark.parametrize(
    ("excluded", "server", "direct"),
    [
        ("*", FAR, True),
        ("far.example", FAR, True),
        (".far.example", FAR, True),
        ("*.far.example", FAR, True),
        (".api.far.example", FAR, False),
        ("api.far.example", FAR, True),
        ("ar.example", FAR, False),
        ("other, API.far.example", FAR, True),
        ("api.far.example:6443", FAR, True),
        ("api.far.example:443", FAR, False),
        ("10.0.0.0/8", "https://10.96.0.1", True),
        ("10.0.0.0/8", "https://11.96.0.1", False),
        ("10.0.0.0/8", FAR, False),
        ("10.96.0.1", "https://10.96.0.1", True),
        ("10.96.0.1:443", "https://10.96.0.1", True),
        ("fd00::/8", "https://[fd00::1]:6443", True),
        ("fd00::1", "https://[fd00::1]:6443", True),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", True),
        ("[fd00::1]:1", "https://[fd00::1]:6443", False),
        ("10.0.0.0/99", "https://10.96.0.1", False),
        ("", FAR, False),
        (",", FAR, False),
    ],
)
def test_no_proxy_excludes_servers(excluded, server, direct):
    environ = {"HTTPS_PROXY": "http://p", "NO_PROXY": excluded}
    assert find_proxy(server, environ) == (None if direct else "http://p")


def test_kubeconfig_and_pod_use_the_proxy_of_the_environment(tmp_path):
    environ = {"HTTPS_PROXY": "http://p:3128", "KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    for name in ("ca.crt", "namespace", "token"):
        (tmp_path / name).write_text("x")
    assert in_cluster(environ, tmp_path).proxy_url == "http://p:3128"
    assert in_cluster(environ | {"NO_PROXY": "10.96.0.0/12"}, tmp_path).proxy_url is None
    file = tmp_path / "config"
    for own, want in ((None, "http://p:3128"), ("http://own:1", "http://own:1")):
        proxy = f", proxy-url: '{own}'" if own else ""
        file.write_text(
            "{current-context: c, contexts: [{name: c, context: {cluster: c}}], "
            f"clusters: [{{name: c, cluster: {{server: '{FAR}'{proxy}}}}}]}}"
        )
        assert from_kubeconfig([file], None, environ).proxy_url == want
