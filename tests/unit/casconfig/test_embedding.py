"""A config inside a JsonServer or a StatefulCluster: the children are written with its values in them."""

import msgspec
import pytest

from kit.kinds.statefulclusters import a_claim_template
from kit.kinds.statefulclusters import a_cluster as a_cluster_body
from quintet.apis import jsonserver, statefulcluster
from quintet.apis.casconfig.embedding import Child, apply_embedded
from quintet.apis.casconfig.ledger import PREFIX
from quintet.apis.jsonserver import JsonServer
from quintet.apis.statefulcluster import Draw, StatefulCluster
from quintet.controllers.jsonserver.decide import desired as jsonserver_desired
from quintet.controllers.statefulcluster.decide import desired as statefulcluster_desired
from unit.casconfig.objects import DEPLOYMENTS, TEMPLATE, a_deployment, a_policy, a_spec, pod_of

SIDECAR = {"name": "proxy", "image": "proxy:1"}
SECRET = {"kind": "Secret", "name": "s", "path": ".data.key", "toType": "env", "toKey": "KEY"}
POLICIES = [
    a_policy("pods", {"kinds": ["Deployment", "Pod"]}, envs={"LEVEL": "debug"}, sidecars=[SIDECAR]),
    a_policy(
        "all",
        {"names": ["*"], "kinds": ["Service", "Deployment", "PersistentVolumeClaim"]},
        labels={"team": "a"},
    ),
    a_policy("secret", {"kinds": ["Deployment"]}, **{"from": SECRET}),
]


def a_server(config=None, **spec):
    body = {"metadata": {"name": "app-x", "namespace": "shop"}, "spec": {"jsonConfig": "{}", **spec}}
    if config is not None:
        body["spec"]["casConfig"] = {"policies": config}
    return body


def children(config):
    server = msgspec.convert(a_server(config), JsonServer)
    return (
        jsonserver_desired.config_map(server),
        jsonserver_desired.service(server),
        jsonserver_desired.deployment(server, "json-server:1"),
    )


def test_jsonserver_children_contain_embedded_config_values():
    config_map, service, deployment = children(POLICIES)
    assert "team" not in config_map["metadata"]["labels"]
    assert service["metadata"]["labels"]["team"] == deployment["metadata"]["labels"]["team"] == "a"
    main, proxy = pod_of(deployment)["containers"]
    reference = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}}
    assert main["env"] == proxy["env"] == [{"name": "LEVEL", "value": "debug"}, reference]
    assert (main["name"], proxy["image"]) == ("json-server", "proxy:1")
    assert PREFIX not in str(deployment), "nothing is patched, so there is nothing to write down"


def test_children_without_embedded_config_are_unchanged():
    plain = children(None)
    assert msgspec.json.encode(plain) == msgspec.json.encode(children(None))
    assert [each["metadata"]["labels"]["app"] for each in plain] == ["app-x"] * 3


def test_embedded_config_keeps_values_that_the_owner_sets():
    body = a_deployment()
    spec = a_spec(a_policy(labels={"app": "stolen", "team": "a"}, annotations={"note": "stolen"}))
    made = apply_embedded(spec, Child(DEPLOYMENTS, body, TEMPLATE))
    assert made["metadata"]["labels"] == {"app": "web", "tier": "front", "team": "a"}
    assert made["metadata"]["annotations"] == {"note": "mine"}
    assert body == a_deployment(), "the child that was given is not changed"


def a_cluster(config=None):
    body = a_cluster_body(volumeClaimTemplates=[a_claim_template("data")])
    body["metadata"] |= {"namespace": "shop", "uid": "u-1"}
    if config is not None:
        body["spec"]["cluster"] = {"casConfig": {"policies": config}}
    return body


def read(body):
    return msgspec.convert(body, StatefulCluster)


def test_statefulcluster_pods_contain_embedded_config_values():
    cluster = read(a_cluster([*POLICIES, a_policy("labels", {"kinds": ["Pod"]}, labels={"team": "b"})]))
    template = statefulcluster_desired.template(cluster)
    pod = statefulcluster_desired.pod(cluster, Draw("web-b7x2", "k4m9"), "rev", template)
    assert [each["name"] for each in pod["spec"]["containers"]][-1] == "proxy"
    assert all({"name": "LEVEL", "value": "debug"} in each["env"] for each in pod["spec"]["containers"])
    assert pod["metadata"]["labels"]["team"] == "b"
    assert pod["metadata"]["name"] == "web-b7x2"
    assert "name" not in template["metadata"]


def test_changed_embedded_config_creates_a_new_revision():
    plain, other = read(a_cluster()), read(a_cluster(POLICIES))
    assert statefulcluster_desired.revision_data(plain) == {"spec": {"template": plain.spec.template}}
    digests = {
        statefulcluster_desired.digest(statefulcluster_desired.revision_data(each)) for each in (plain, other)
    }
    assert len(digests) == 2


def test_new_statefulcluster_claims_get_embedded_labels():
    cluster = read(a_cluster(POLICIES))
    claim = statefulcluster_desired.claim(cluster, cluster.spec.volume_claim_templates[0], "k4m9")
    assert claim["metadata"]["labels"]["team"] == "a"


CONFIG = "spec.casConfig.policies[0]"
REFUSED = {
    "its container is replaced": (
        a_policy(mainContainer=SIDECAR),
        f"{CONFIG}.values.mainContainer: Forbidden: the containers of this kind must stay; use sidecars",
    ),
    "all containers are replaced": (
        a_policy(containers=[SIDECAR]),
        f"{CONFIG}.values.containers: Forbidden: the containers of this kind must stay; use sidecars",
    ),
    "a label of ours": (
        a_policy(labels={"app": "x"}),
        f"{CONFIG}.values.labels[app]: Forbidden: this label is set without the config, and stays",
    ),
    "something must be read": (
        a_policy(**{"from": {**SECRET, "kind": "ConfigMap"}}),
        f"{CONFIG}.values.from[0]: Forbidden: an embedded config reads no other objects; only a Secret can be referred to",
    ),
    "a Secret elsewhere": (
        a_policy(**{"from": {**SECRET, "namespace": "x"}}),
        f"{CONFIG}.values.from[0].namespace: Forbidden: a Secret must be in the namespace of the object",
    ),
    "the data is mounted over": (
        a_policy(sidecars=[{"name": "json-server", "volumeMounts": [{"name": "x", "mountPath": "/data"}]}]),
        f"{CONFIG}.values.sidecars[0].volumeMounts[0]: Forbidden: /data, /etc/json-server and their volumes are reserved",
    ),
    "an empty include": (
        a_policy(include={}, labels={"a": "b"}),
        f"{CONFIG}.include: Required value: must select objects: an empty include matches nothing",
    ),
    "a privileged sidecar": (
        a_policy(sidecars=[{**SIDECAR, "securityContext": {"privileged": True}}]),
        f"{CONFIG}.values.sidecars[0].securityContext.privileged: Forbidden: a privileged container owns the node",
    ),
}


@pytest.mark.parametrize(("policy", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_jsonserver_refuses_embedded_config_that_breaks_its_children(policy, want):
    assert [str(error) for error in jsonserver.validate(a_server([policy])).errors] == [want]


def test_malformed_embedded_config_gives_one_error():
    server = a_server()
    server["spec"]["casConfig"] = {"policies": "x"}
    assert [str(error) for error in jsonserver.validate(server).errors] == [
        "spec.casConfig: Invalid value: null: Expected `array`, got `str` - at `$.policies`"
    ]


def test_statefulcluster_refuses_embedded_config_that_sets_its_labels():
    config = [a_policy(include={"kinds": ["Pod"]}, labels={"app": "x", "enge.me/replica": "x", "free": "x"})]
    path = "spec.cluster.casConfig.policies[0].values.labels"
    assert [str(error).partition(":")[0] for error in statefulcluster.validate(a_cluster(config)).errors] == [
        f"{path}[app]",
        f"{path}[enge.me/replica]",
    ]


def test_jsonserver_and_statefulcluster_accept_valid_cas_config():
    assert jsonserver.validate(a_server(POLICIES)).errors == ()
    assert statefulcluster.validate(a_cluster(POLICIES)).errors == ()
