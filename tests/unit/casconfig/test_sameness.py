"""What the API server makes of a value is the same value; anything else is an edit."""

import pytest

from quintet.apis.casconfig.places import ABSENT
from quintet.apis.casconfig.sameness import same

CONTAINER = ("containers", "web")
PLAIN = {"name": "web", "image": "web:1"}
PROBE = {"httpGet": {"port": 80}}

SAME = {
    "defaults of a container": (
        CONTAINER,
        PLAIN,
        {
            **PLAIN,
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "resources": {},
        },
    ),
    "an image without a tag is always pulled": (
        CONTAINER,
        {"image": "web"},
        {"image": "web", "imagePullPolicy": "Always"},
    ),
    "latest is always pulled": (
        CONTAINER,
        {"image": "a:5000/web:latest"},
        {"image": "a:5000/web:latest", "imagePullPolicy": "Always"},
    ),
    "a port in the registry is no tag": (
        CONTAINER,
        {"image": "a:5000/web"},
        {"image": "a:5000/web", "imagePullPolicy": "Always"},
    ),
    "a digest is not pulled again": (
        CONTAINER,
        {"image": "web@sha256:1"},
        {"image": "web@sha256:1", "imagePullPolicy": "IfNotPresent"},
    ),
    "the protocol of a port": (
        CONTAINER,
        {"ports": [{"containerPort": 80}]},
        {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
    ),
    "a single port": (
        ("containers", "web", "ports", "80/TCP"),
        {"containerPort": 80},
        {"containerPort": 80, "protocol": "TCP"},
    ),
    "defaults of a probe": (
        CONTAINER,
        {"livenessProbe": PROBE},
        {
            "livenessProbe": {
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "timeoutSeconds": 1,
                "periodSeconds": 10,
                "successThreshold": 1,
                "failureThreshold": 3,
            }
        },
    ),
    "a probe alone": (
        ("containers", "web", "startupProbe"),
        {"exec": {}, "initialDelaySeconds": 0},
        {"timeoutSeconds": 1, "failureThreshold": 3},
    ),
    "quantities": (
        CONTAINER,
        {"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}},
        {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
    ),
    "a single quantity": (("containers", "web", "resources", "limits", "cpu"), "0.5", "500m"),
    "a quantity as a number": (("containers", "web", "resources", "limits", "cpu"), 2, "2"),
    "less than a thousandth": (("containers", "web", "resources", "limits", "cpu"), "0.0001", "1m"),
    "a variable without a value": (
        ("containers", "web", "env", "A"),
        {"name": "A", "value": ""},
        {"name": "A"},
    ),
    "the version of a field": (
        ("containers", "web", "env", "A"),
        {"valueFrom": {"fieldRef": {"fieldPath": "x"}}},
        {"valueFrom": {"fieldRef": {"fieldPath": "x", "apiVersion": "v1"}}},
    ),
    "the divisor of a resource": (
        ("containers", "web", "env", "A"),
        {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}},
    ),
    "what is empty": (CONTAINER, {"env": [], "tty": False, "workingDir": "", "lifecycle": None}, {}),
    "both absent": (("labels", "a"), ABSENT, ABSENT),
}
DIFFERENT = {
    "an image": (CONTAINER, PLAIN, {**PLAIN, "image": "web:2"}),
    "a field that was added": (CONTAINER, PLAIN, {**PLAIN, "workingDir": "/x"}),
    "another pull policy": (CONTAINER, PLAIN, {**PLAIN, "imagePullPolicy": "Never"}),
    "another quantity": (("containers", "web", "resources", "limits", "cpu"), "1", "1m"),
    "false and nothing, where that matters": (CONTAINER, {"securityContext": {"runAsNonRoot": False}}, {}),
    "nobody and root": (CONTAINER, {"securityContext": {"runAsUser": 0}}, {}),
    "a label that looks like a quantity": (("labels", "limits"), "1000m", "1"),
    "an annotation that became empty": (("annotations", "quantity"), "1", ""),
    "absent and there": (("labels", "a"), ABSENT, ""),
    "one and true": (("containers", "web", "args"), [1], [True]),
    "the order of arguments": (("containers", "web", "args"), ["a", "b"], ["b", "a"]),
}


@pytest.mark.parametrize(("path", "one", "other"), SAME.values(), ids=SAME.keys())
def test_server_defaults_and_formats_are_equal(path, one, other):
    assert same(path, one, other)
    assert same(path, other, one)


@pytest.mark.parametrize(("path", "one", "other"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_changed_values_are_different(path, one, other):
    assert not same(path, one, other)
    assert not same(path, other, one)
