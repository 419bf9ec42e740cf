"""What a support archive holds, and that no secret is in it, wherever it was planted."""

import gzip
import io
import json
import tarfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintet.support.bundle import BundleContent, MissingItem, build_archive, redact_files, sort_events
from quintet.support.redaction import REMOVED, Redaction

KEY = b"k" * 32
SECRETS = st.from_regex(r"[A-Za-z0-9!_#.-]{3,8}[0-9][A-Za-z0-9_.-]{4,20}[A-Za-z0-9]", fullmatch=True)
KEYS = st.sampled_from(
    ["name", "type", "message", "kind", "image", "status", "value", "reason", "inner", "x", "note", "labels"]
)
# Everything below these is a user's.
OF_USERS = (
    "data", "stringData", "binaryData", "annotations", "params", "jsonConfig", "args", "command",
    "config", "values", "results", "headers", "notOneOfOurs",
)  # fmt: skip


def nested(secret: str) -> st.SearchStrategy[Any]:
    """A secret somewhere in something."""
    holders = st.one_of(
        st.just(secret),
        st.builds("{}{}{}".format, st.sampled_from(["", "x=", '{"a": "', "line\n"]), st.just(secret), st.sampled_from(["", '"}', "\nend"])),
    )  # fmt: skip
    return st.recursive(
        holders,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=2), st.dictionaries(KEYS, inner, min_size=1, max_size=2)
        ),
        max_leaves=4,
    )


@st.composite
def objects(draw: st.DrawFn, secret: str, place: str) -> dict[str, Any]:
    """An object as of a cluster, with a secret in one of the places where users put them."""
    held = draw(nested(secret))
    spec: dict[str, Any] = {"replicas": 2, "image": "registry.example/app:1"}
    meta: dict[str, Any] = {"name": "orders", "namespace": "shop", "managedFields": [{"x": secret}]}
    match place:
        case "env":
            spec["template"] = {"containers": [{"name": "main", "env": [{"name": "PLACE", "value": secret}]}]}
        case "label":
            meta["labels"] = {"team": secret, "app.kubernetes.io/name": "orders"}
        case "sidecar":
            spec["policies"] = [{"values": {"sidecars": [{"name": "s", "env": [{"name": secret}]}]}}]
        case "notOneOfOurs":
            spec["notOneOfOurs"] = secret if isinstance(held, str) else json.dumps(held)
        case "annotations":
            meta["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(held)}
        case _:
            (spec if draw(st.booleans()) else meta)[place] = held
    return {"apiVersion": "v1", "kind": "Thing", "metadata": meta, "spec": spec}


FORMS = (
    "Authorization: Bearer {}",
    '{{"level":"info","msg":"asking","authorization":"Bearer {}"}}',
    "connecting to nats://user:{}@nats.example:4222/x",
    'url="https://{}@host/path"',
    "password={} user=x",
    "PASSWORD: {}",
    '{{"clientSecret": "{}", "a": 1}}',
    'said \\"token\\": \\"{}\\" to nobody',
    "api_key='{}'",
    "Cookie: a={}; b=2",
    "-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\n{}",
    "basic {}",
)


def unpacked(content: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as archive:
        return {
            each.name: opened.read().decode()
            for each in archive.getmembers()
            if (opened := archive.extractfile(each)) is not None
        }


def found_in(content: bytes, secret: str) -> dict[str, str]:
    """The files that hold a secret, also as JSON writes it, and around it."""
    forms = {secret, json.dumps(secret)[1:-1]}
    return {name: text for name, text in unpacked(content).items() if any(each in text for each in forms)}


@pytest.mark.parametrize("place", [*OF_USERS, "env", "label", "sidecar"])
@settings(max_examples=25)
@given(data=st.data())
def test_secret_of_an_object_is_removed_from_the_whole_bundle(place, data):
    secret = data.draw(SECRETS)
    gathered = BundleContent()
    gathered.documents["objects/a.json"] = data.draw(objects(secret, place))
    gathered.documents["events/shop.json"] = sort_events(
        [{"reason": "Failed", "note": f"cannot use {secret} here", "regarding": {"name": "orders"}}]
    )
    gathered.texts["logs/pod/main.log"] = f"before\nthe value is {secret}, sorry\nx{secret}\nafter\n"
    gathered.texts["trees/shop.txt"] = f"Thing orders  Failed ({secret})"
    gathered.missing.append(MissingItem("pods", f"because of {secret}"))

    content = build_archive(gathered, Redaction(KEY), "report", {"Made": "now"})

    assert found_in(content, secret) == {}


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15)
@given(secret=SECRETS)
def test_text_that_looks_like_a_secret_is_removed_from_logs(form, secret):
    line = form.format(secret)
    gathered = BundleContent()
    gathered.texts["logs/pod/main.log"] = f"before\n{line}\n"
    gathered.texts["doctor.txt"] = line
    gathered.documents["a.json"] = {"status": {"conditions": [{"type": "Ready", "message": line}]}}
    for with_data in (False, True):
        content = build_archive(gathered, Redaction(KEY, with_data), "report", {"Made": line})
        assert found_in(content, secret) == {}


@given(st.text(max_size=200))
def test_redaction_accepts_any_text(text):
    redaction = Redaction(KEY)
    redaction.register({"data": {"a": text}})
    redaction.text(text)
    redaction.object({"a": text, "name": text, "message": text})


def a_deployment() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "quintet",
            "namespace": "quintet-system",
            "labels": {"app.kubernetes.io/name": "quintet", "team": "blue-team-7"},
            "annotations": {"note": "call 555-1234"},
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {
            "replicas": 2,
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "quintet",
                            "image": "quintet.local/quintet:0.1.0",
                            "env": [
                                {"name": "QUINTET_IMAGE", "value": "quintet.local/quintet:0.1.0"},
                                {"name": "PASSWORD", "value": "hunter22"},
                            ],
                        }
                    ]
                }
            },
        },
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicas"}]},
    }


def test_redaction_keeps_identity_and_status():
    shown = Redaction(KEY).object(a_deployment())
    assert shown["metadata"]["name"] == "quintet"
    assert shown["metadata"]["labels"]["app.kubernetes.io/name"] == "quintet"
    assert "managedFields" not in shown["metadata"]
    assert shown["status"] == a_deployment()["status"]
    (container,) = shown["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "quintet.local/quintet:0.1.0"
    assert [each["name"] for each in container["env"]] == ["QUINTET_IMAGE", "PASSWORD"]


def test_redacted_value_shows_length_and_equal_fingerprints():
    redaction = Redaction(KEY)
    shown = redaction.object({"data": {"a": "hunter22", "b": "hunter22", "c": "hunter23"}})["data"]
    assert shown["a"].startswith("<8 characters, ")
    assert shown["a"] == shown["b"] != shown["c"]
    assert Redaction(b"j" * 32).object({"data": "hunter22"})["data"] != shown["a"], "nobody can try passwords"


def test_logs_keep_public_names_and_lose_hidden_values():
    gathered = BundleContent(documents={"a.json": a_deployment()})
    gathered.texts["log"] = "quintet.local/quintet:0.1.0 pulled for quintet, with hunter22 and 555-1234"
    files = redact_files(gathered, Redaction(KEY), {})
    assert files["log"].startswith("quintet.local/quintet:0.1.0 pulled for quintet, with <removed>")
    assert "555-1234" not in files["log"]


def test_with_data_keeps_values_but_removes_passwords_in_urls():
    body = {"data": {"a": "plain value", "b": "nats://me:hunter22@nats:4222"}}
    shown = Redaction(KEY, with_data=True).object(body)["data"]
    assert shown == {"a": "plain value", "b": f"nats://{REMOVED}@nats:4222"}


@pytest.mark.parametrize(
    "line",
    [
        'secrets "quintet-webhook-certs" is forbidden for system:serviceaccount:quintet-system:quintet',
        '{"ts":"2026-01-01T00:00:00Z","level":"info","msg":"Caches synced","objects":17}',
        "GET https://10.96.0.1:443/api/v1/pods?limit=500 200",
        "Deployment shop/orders: 1 of 2 pods serve",
    ],
)
def test_redaction_keeps_lines_without_secrets(line):
    assert Redaction(KEY).text(line) == line


def test_index_lists_content_and_unreadable_items():
    gathered = BundleContent(texts={"logs/p/main.log": "x"}, about={"logs": "the ends of logs"})
    gathered.missing.append(MissingItem("metrics/p.txt", "you may not"))
    index = redact_files(gathered, Redaction(KEY), {"Server": "Kubernetes v1.37.0"})["index.md"]
    assert "- Server: Kubernetes v1.37.0" in index
    assert "| `logs` | the ends of logs | 1 |" in index
    assert "- metrics/p.txt: you may not" in index
    assert "Secrets were not read" in index


def test_equal_content_gives_equal_archives():
    def made() -> bytes:
        return build_archive(BundleContent(texts={"a": "b"}), Redaction(KEY), "r", {})

    assert made() == made()


def test_bundle_events_are_summarized_and_sorted_by_time():
    events = [
        {"eventTime": "2026-01-02", "reason": "B", "regarding": {"kind": "Pod", "name": "p"}, "note": "two"},
        {"eventTime": "2026-01-01", "reason": "A", "series": {"count": 3, "lastObservedTime": "2026-01-01"}},
    ]
    assert [(each["reason"], each["count"]) for each in sort_events(events)] == [("A", 3), ("B", 1)]
