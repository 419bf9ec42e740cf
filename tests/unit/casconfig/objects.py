"""Objects and configs for the tests of CASConfig's pure core."""

import copy

import msgspec

from quintet.apis.casconfig import CASConfigSpec
from quintet.apis.casconfig.injection import desired_settings
from quintet.apis.casconfig.layers import beneath, build_rewrite
from quintet.apis.meta import ObjectKey, Resource

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
TEMPLATE = ("spec", "template", "spec")
LOW, HIGH = ObjectKey("shop", "low"), ObjectKey("shop", "high")


def a_deployment(**metadata):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "resourceVersion": "7",
            "labels": {"app": "web", "tier": "front"},
            "annotations": {"note": "mine"},
            **metadata,
        },
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "serviceAccountName": "runner",
                    "initContainers": [{"name": "init", "image": "init:1"}],
                    "containers": [
                        {"name": "web", "image": "web:1", "env": [{"name": "LEVEL", "value": "info"}]},
                        {"name": "log", "image": "log:1"},
                    ],
                },
            }
        },
    }


def a_spec(*policies, **rest):
    return msgspec.convert({"policies": list(policies), **rest}, CASConfigSpec)


def a_policy(name="p", include=None, override=False, **values):
    chosen = {"kinds": ["Deployment"]} if include is None else include
    return {"name": name, "include": chosen, "values": values, "override": override}


def policies(**values):
    return a_spec(a_policy(**values)).policies


def given(live, config, *, pod=TEMPLATE, override=False, **values):
    """What a controller would send for a config with one policy of these values."""
    chosen = a_spec(a_policy(override=override, **values)).policies
    asked = desired_settings(chosen, beneath(live, config), {}, pod)
    return build_rewrite(live, config, asked.settings, pod)


def pod_of(obj):
    return obj["spec"]["template"]["spec"]


def container(obj, name, kind="containers"):
    return next((item for item in pod_of(obj).get(kind, []) if item["name"] == name), None)


def edited(obj, edit):
    """The object after somebody else has changed it."""
    changed = copy.deepcopy(obj)
    edit(changed)
    return changed
