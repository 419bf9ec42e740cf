"""Contenders that do other work than the rest are found out."""

import json

from benchmarks import plans
from benchmarks.sameness import differing, essence


def a_deployment(*, args: str = "--port 3000", mark: str = "aa", uid: str = "u-1") -> dict:
    return {
        "metadata": {
            "labels": {"app": "app-1"},
            "ownerReferences": [{"kind": "JsonServer", "name": "app-1", "uid": uid}],
            "resourceVersion": uid,
        },
        "spec": {
            "template": {
                "metadata": {"annotations": {"example.com/config-hash": mark}},
                "spec": {"args": args},
            }
        },
    }


def test_hashes_and_identities_may_differ():
    assert essence(a_deployment()) == essence(a_deployment(mark="bb", uid="u-2"))


def test_addresses_that_the_server_chose_may_differ():
    one, other = (
        {"metadata": {}, "spec": {"clusterIP": ip, "ports": [1]}} for ip in ("10.0.0.1", "10.0.0.2")
    )
    assert essence(one) == essence(other)


def test_other_content_is_named():
    known, content = essence(a_deployment()), essence(a_deployment(args="--port 1"))
    assert known != content
    assert differing(known, content).startswith("spec: ")


def test_a_status_that_says_something_else_is_not_the_same():
    assert essence({"metadata": {}, "status": {"state": "Synced"}}) != essence({"metadata": {}, "status": {}})


def test_peers_get_the_pod_and_the_status_of_the_product():
    template = json.loads(plans.template("{}"))
    assert template["place"]["name"] in json.dumps(template["pod"]["volumes"])
    assert template["place"]["namespace"] in template["status"]["url"]
    assert template["status"]["state"] == "Synced"
