"""Who may use the dashboard."""

from urllib.parse import urlsplit

import pytest

from quintet.dashboard.access import Access
from quintet.web.server import Request

HOST = "127.0.0.1:4321"


@pytest.fixture
def access():
    return Access(4321)


def a_request(path="/", query="", host=HOST, cookie="", method="GET"):
    headers = {"host": host} | ({"cookie": cookie} if cookie else {})
    return Request(method, path, query, headers)


def cookie_of(access):
    found = access.set_cookie(a_request(query=urlsplit(access.url).query))
    assert found is not None
    return found


def test_url_sets_a_cookie_that_scripts_and_other_sites_cannot_use(access):
    assert urlsplit(access.url).netloc == HOST
    _, *attributes = cookie_of(access).split("; ")
    assert attributes == ["HttpOnly", "SameSite=Strict", "Path=/"]


def test_token_is_new_for_each_dashboard(access):
    assert access.token != Access(4321).token
    assert len(access.token) >= 43


@pytest.mark.parametrize("path", ["/", "/live", "/static/dashboard.js", "/objects/JsonServer/shop/a"])
def test_request_with_the_cookie_is_permitted(access, path):
    cookie = cookie_of(access).split(";")[0]
    assert access.refuse(a_request(path, cookie=cookie)) is None
    assert access.refuse(a_request(path, cookie=f"other=1; {cookie}", host="localhost:4321")) is None


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, 403),
        ({"cookie": "quintet-dashboard-4321=wrong"}, 403),
        ({"cookie": "quintet-dashboard-4321="}, 403),
        ({"cookie": '"=;;'}, 403),
        ({"query": "token="}, 403),
        ({"query": "token=wrong"}, 403),
        ({"query": "token=%ff"}, 403),
        ({"host": "rebound.example:4321"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": "127.0.0.1:1"}, 421),
        ({"host": ""}, 421),
        ({"method": "POST"}, 405),
    ],
    ids=str,
)
def test_request_without_token_or_under_another_name_is_refused(access, changes, want):
    refused = access.refuse(a_request(**changes))
    assert refused is not None
    assert refused.status == want


def test_right_cookie_under_another_name_is_refused(access):
    refused = access.refuse(a_request(host="rebound.example:4321", cookie=cookie_of(access).split(";")[0]))
    assert refused is not None
    assert refused.status == 421


def test_token_in_the_url_of_another_page_is_no_key(access):
    refused = access.refuse(a_request("/live", query=urlsplit(access.url).query))
    assert refused is not None
    assert refused.status == 403
