"""Contenders whose objects differ from the reference are rejected."""

import json

from benchmarks import plans
from benchmarks.comparison import comparable_content, find_differences


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


def test_comparison_ignores_hashes_and_uids():
    assert comparable_content(a_deployment()) == comparable_content(a_deployment(mark="bb", uid="u-2"))


def test_comparison_ignores_cluster_ips():
    one, other = (
        {"metadata": {}, "spec": {"clusterIP": ip, "ports": [1]}} for ip in ("10.0.0.1", "10.0.0.2")
    )
    assert comparable_content(one) == comparable_content(other)


def test_comparison_reports_different_content():
    known, content = comparable_content(a_deployment()), comparable_content(a_deployment(args="--port 1"))
    assert known != content
    assert find_differences(known, content).startswith("spec: ")


def test_comparison_reports_different_status():
    assert comparable_content({"metadata": {}, "status": {"state": "Synced"}}) != comparable_content(
        {"metadata": {}, "status": {}}
    )


def test_peer_operators_use_same_pod_template_and_status():
    template = json.loads(plans.template("{}"))
    assert template["place"]["name"] in json.dumps(template["pod"]["volumes"])
    assert template["place"]["namespace"] in template["status"]["url"]
    assert template["status"]["state"] == "Synced"
