"""Where nobody may be led through a backend."""

import pytest

from quintet.apis.eventingbackend.addresses import NetworkLimits, ServerEndpoint, find_refusal, parse_endpoint

LIMITS = NetworkLimits.of(api_server=["10.96.0.1", "192.0.2.10", "fd00::1"])


@pytest.mark.parametrize(
    ("address", "want"),
    [
        ("127.0.0.1", "is a loopback address"),
        ("127.8.9.1", "is a loopback address"),
        ("::1", "is a loopback address"),
        ("0.0.0.0", "means this host"),
        ("::", "means this host"),
        ("169.254.169.254", "is a link-local address"),
        ("fe80::1", "is a link-local address"),
        ("fe80::1%eth0", "is a link-local address"),
        ("fd00:ec2::254", "hands out credentials of a cloud"),
        ("100.100.100.200", "hands out credentials of a cloud"),
        ("224.0.0.1", "is a multicast address"),
        ("ff02::1", "is a multicast address"),
        ("10.96.0.1", "is an address of the API server"),
        ("fd00::1", "is an address of the API server"),
        ("::ffff:127.0.0.1", "is a loopback address"),
        ("::ffff:10.96.0.1", "is an address of the API server"),
        ("::127.0.0.1", "is a loopback address"),
        ("64:ff9b::a9fe:a9fe", "is a link-local address"),
        ("64:ff9b:1::7f00:1", "is a loopback address"),
        ("2002:7f00:1::", "is a loopback address"),
        ("2001:0:102:304:0:ffff:80ff:fffe", "is a loopback address"),
    ],
)
def test_internal_address_is_refused(address, want):
    assert LIMITS.refusal(address) == f"{address} {want}"


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "192.168.1.1", "203.0.113.5", "2001:db8::5", "::ffff:10.0.0.7"]
)
def test_other_addresses_are_allowed(address):
    assert LIMITS.refusal(address) == ""


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "1.2.3.4.5"])
def test_invalid_address_is_refused(text):
    assert LIMITS.refusal(text) == f"'{text}' is not an address"


def test_administrator_can_allow_and_refuse_networks():
    limits = NetworkLimits.of(allowed=["127.0.0.0/8"], refused=["10.0.0.0/8"])
    assert limits.refusal("127.0.0.1") == ""
    assert limits.refusal("::ffff:127.0.0.1") == ""
    assert limits.refusal("10.1.2.3") == "10.1.2.3 is refused by the administrator"
    assert limits.refusal("::1") != ""


def test_allowed_address_does_not_allow_an_embedded_one():
    # Teredo: the server is 1.2.3.4, and behind it is 127.0.0.1.
    limits = NetworkLimits.of(allowed=["1.2.3.0/24"])
    assert limits.refusal("2001:0:102:304:0:ffff:80ff:fffe") != ""


@pytest.mark.parametrize("option", ["allowed", "refused", "api_server"])
def test_invalid_network_is_reported_with_its_text(option):
    with pytest.raises(ValueError, match=r"10\.0\.0\.300"):
        NetworkLimits.of(**{option: ["10.0.0.300"]})


def test_one_refused_address_refuses_the_host():
    said = find_refusal("nats.example.com", ["203.0.113.5", "127.0.0.1"], LIMITS)
    assert said == (
        "'nats.example.com' must not be used as a backend: 127.0.0.1 is a loopback address. "
        "Choose another server, or ask an administrator to allow the address."
    )
    assert find_refusal("nats.example.com", ["203.0.113.5", "2001:db8::5"], LIMITS) == ""


def test_host_without_addresses_is_refused():
    assert find_refusal("nats.example.com", [], LIMITS) == "the name 'nats.example.com' has no address"


@pytest.mark.parametrize(
    ("url", "want"),
    [
        ("nats://h", ServerEndpoint("nats", "h", 4222)),
        ("tls://h:443", ServerEndpoint("tls", "h", 443)),
        ("nats://[2001:db8::1]:4", ServerEndpoint("nats", "2001:db8::1", 4)),
        ("https://token.example.com/oauth?x=y", ServerEndpoint("https", "token.example.com", 443)),
    ],
)
def test_url_gives_host_and_port(url, want):
    assert parse_endpoint(url) == want


@pytest.mark.parametrize(
    "url", ["", "h:4222", "file:///etc/hunter2", "nats://", "nats://hunter2:hunter2@[h", "nats://h:hunter2"]
)
def test_invalid_url_is_refused_without_being_repeated(url):
    with pytest.raises(ValueError, match="the url") as caught:
        parse_endpoint(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
