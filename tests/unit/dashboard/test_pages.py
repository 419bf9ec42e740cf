"""The pages as HTML: what they show, and that nothing from the cluster becomes markup."""

from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.jsonserver import JSONSERVER
from quintet.apis.meta import ObjectMeta, Resource
from quintet.dashboard.layout import render_page
from quintet.dashboard.markup import element, escape, text_with_code
from quintet.dashboard.object_page import MAX_NODES, render_logs, render_object, render_problem
from quintet.dashboard.overview_page import object_url, render_overview
from quintet.dashboard.query import PAGE_SIZE, Query, parse_query
from quintet.dashboard.server import encode_event
from quintet.inspect.events import parse_event
from quintet.inspect.explanation import build_explanation
from quintet.inspect.explanation_reader import ObjectDetails
from quintet.inspect.relations.owned_objects import ObjectTree, TreeNode
from quintet.inspect.status import read_status

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
VOID = {"meta", "link", "input"}
KINDS = ["JsonServer", "Checkup"]


class Page(HTMLParser):
    """The elements and the text of a page; fails if elements are not nested correctly."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def attributes(self, tag: str, name: str) -> list[str | None]:
        return [attrs[name] for each, attrs in self.tags if each == tag and name in attrs]


def a_status(name="app-books", ready="True", reason="AllReplicasAvailable", message="fine", namespace="shop"):
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:05:00Z",
    }
    meta = {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return read_status(JSONSERVER, {"metadata": meta, "status": {"conditions": [condition]}})


def details(status, word="fine", children=()):
    event = {
        "metadata": {"uid": "e"},
        "type": "Warning",
        "reason": word,
        "note": word,
        "regarding": {"kind": word, "name": word, "uid": "p"},
        "eventTime": "2026-01-01T00:08:00Z",
    }
    events = [parse_event(event)]
    root = TreeNode(
        JSONSERVER.resource, ObjectMeta(name=status.name, namespace="shop"), None, "", "", children
    )
    explanation = build_explanation(status, (), events, controller="jsonserver", waits=[word])
    return ObjectDetails(status, ObjectTree(root), explanation, tuple(events), True, (word,))


def a_pod(name, error=""):
    return TreeNode(
        Resource("", "v1", "Pod", "pods"), ObjectMeta(name=name, namespace="shop"), None, "", error
    )


def overview(statuses, query=None, **more):
    return Page(render_overview(statuses, KINDS, [], query or Query(), NOW, **more))


@given(st.text(alphabet=st.sampled_from("<>&'\"/=`;: scriptonerror\x00\r\n\u202e"), max_size=60))
def test_hostile_text_of_an_object_is_shown_as_text(word):
    """The same page with harmless text has the same elements and attributes."""

    def pages(text):
        status = a_status(text, "False", text, text, namespace=text)
        yield render_overview([status], KINDS, [text], Query(text=text), NOW)
        yield render_object(details(status, text, (a_pod(text, text), a_pod(text))), NOW)
        yield render_logs(status, [text], [text])
        yield render_problem("Problem", text, text)
        yield render_page(text, escape(text), context=text, live="/live").decode()

    def shape(html):
        ignored = {"code"}  # commands in backticks
        return [(tag, sorted(attrs)) for tag, attrs in Page(html).tags if tag not in ignored]

    harmless = "x" * len(word) if word.strip() else word
    for hostile, plain in zip(pages(word), pages(harmless), strict=True):
        assert "<script>" not in hostile.replace('<script src="/static/dashboard.js" defer></script>', "")
        assert shape(hostile) == shape(plain)


def test_script_in_a_message_is_text():
    page = Page(render_object(details(a_status(message="<script>alert(1)</script>")), NOW))
    assert "<script>alert(1)</script>" in page.text
    assert "script" not in [tag for tag, _ in page.tags]


def test_character_that_changes_the_text_direction_is_shown_as_its_number():
    assert escape("a\u202eb\x1b[0m") == "a\\u202eb\\u001b[0m"


def test_name_of_an_object_cannot_lead_to_another_url():
    assert object_url("JsonServer", "a/b", '"><x>?#') == "/objects/JsonServer/a%2Fb/%22%3E%3Cx%3E%3F%23"
    assert object_url("Quintet", "", "quintet") == "/objects/Quintet/-/quintet"


def test_attributes_are_escaped_and_false_ones_omitted():
    assert element("option", "<", value='"', selected=False, disabled=True) == (
        '<option value="&quot;" disabled>&lt;</option>'
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [("run `a<b` now", "run <code>a&lt;b</code> now"), ("a ` alone", "a ` alone"), ("", "")],
    ids=["a command", "an odd number of backticks", "nothing"],
)
def test_backticks_become_code(text, want):
    assert text_with_code(text) == want


def test_overview_lists_problems_first_and_counts_per_kind():
    page = overview([a_status("a"), a_status("b", "False", "Invalid"), a_status("c", "Unknown", "Waiting")])
    assert page.attributes("tr", "id")[-3:] == [f"row-JsonServer-shop-{name}" for name in "bca"]
    assert "JsonServer31 ready, 1 unknown, 1 with problems" in page.text
    assert "Checkup0none" in page.text


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("", ["bad", "good", "other"]),
        ("health=problems", ["bad"]),
        ("health=nonsense", ["bad", "good", "other"]),
        ("namespace=team", ["other"]),
        ("text=INVALID", ["bad"]),
        ("text=+goo", ["good"]),
        ("kind=Checkup", []),
        ("page=99999999", ["bad", "good", "other"]),
        ("page=%C2%B2", ["bad", "good", "other"]),
    ],
)
def test_overview_shows_the_objects_that_match_all_filters(query, want):
    found = [a_status("good"), a_status("bad", "False", "Invalid"), a_status("other", namespace="team")]
    shown = [str(each).split("-")[-1] for each in overview(found, parse_query(query)).attributes("tr", "id")]
    assert shown == want


def test_overview_of_many_objects_shows_one_page_of_them():
    found = [a_status(f"o{number:05}") for number in range(10_000)]
    page = overview(found, parse_query("page=2&health=ready"))
    rows = page.attributes("tr", "id")
    assert rows == [f"row-JsonServer-shop-o{number:05}" for number in range(PAGE_SIZE, 2 * PAGE_SIZE)]
    assert "10,000 objects, page 2 of 100" in page.text
    links = page.attributes("a", "href")
    assert "/?health=ready" in links
    assert "/?health=ready&page=3" in links


def test_overview_without_objects_says_why():
    assert "There are no objects." in overview([]).text
    assert "No objects match the filters." in overview([a_status()], Query(text="none")).text
    assert "Loading" in overview([], loading=True).text


def test_object_page_shows_steps_conditions_tree_events_and_logs():
    status = a_status(ready="False", reason="Invalid", message="no data; next: add `spec.jsonConfig`")
    page = Page(render_object(details(status, "OOMKilled", (a_pod("p-1"),)), NOW))
    headings = ("What to do", "Facts", "Conditions", "Objects", "Events", "Logs")
    assert [each for each in headings if each in page.text] == list(headings)
    assert "add spec.jsonConfig" in page.text
    assert "Pod p-1" in page.text
    assert "OOMKilled" in page.text
    assert "/objects/JsonServer/shop/app-books/logs" in page.attributes("a", "href")


def test_tree_of_many_objects_is_cut():
    pods = tuple(a_pod(f"p-{number}") for number in range(MAX_NODES + 9))
    page = Page(render_object(details(a_status(), children=pods), NOW))
    assert page.text.count("Pod p-") == MAX_NODES - 1
    assert "and 10 more objects" in page.text


def test_page_names_its_content_for_assistive_technology():
    page = Page(render_page("A", escape("b"), context="all", live="/live?of=%2F").decode())
    assert page.attributes("html", "lang") == ["en"]
    assert "#main" in page.attributes("a", "href")
    assert page.attributes("main", "data-live") == ["/live?of=%2F"]
    assert not any("style" in attrs or any(name.startswith("on") for name in attrs) for _, attrs in page.tags)


def test_event_of_text_with_line_breaks_stays_one_event():
    assert encode_event("view", "a\r\nb\rc\n\nd") == (
        b"event: view\ndata: a\ndata: b\ndata: c\ndata: \ndata: d\n\n"
    )
