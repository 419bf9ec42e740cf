"""What is refused, what is warned of, and what is rewritten. The attack list is here, each with its reason."""

import pytest

from quintet.apis.casconfig.kinds import resolve_kind
from quintet.apis.casconfig.types import FINALIZER
from quintet.apis.casconfig.validation import alias_warnings, default, validate
from quintet.apis.meta import Resource
from unit.casconfig.objects import LOW, a_deployment, a_policy, given, pod_of

SIDECAR = {"name": "proxy", "image": "proxy:1"}
SOURCE = {"kind": "ConfigMap", "name": "c", "path": ".data.x", "toType": "env", "toKey": "X"}
VALUES = "spec.policies[0].values"
INCLUDE = "spec.policies[0].include"


def a_config(*policies, **spec):
    written = list(policies) or [a_policy(labels={"a": "b"})]
    return {"metadata": {"name": "config", "namespace": "shop"}, "spec": {"policies": written, **spec}}


def with_context(**context):
    return a_policy(sidecars=[{**SIDECAR, "securityContext": context}])


def errors(config):
    return [str(error) for error in validate(config).errors]


CONTEXT = f"{VALUES}.sidecars[0].securityContext"
REFUSED = {
    "an empty include": (
        a_policy(include={}, labels={"a": "b"}),
        f"{INCLUDE}: Required value: must select objects: an empty include matches nothing",
    ),
    "values that set nothing": (a_policy(), f"{VALUES}: Required value: must set something"),
    "roles as targets": (
        a_policy(include={"kinds": ["Role"]}, labels={"a": "b"}),
        f"{INCLUDE}.kinds[0]: Forbidden: a Role is never a target: it grants rights",
    ),
    "roles by their group": (
        a_policy(include={"kinds": ["rbac.authorization.k8s.io/v1/ClusterRole"]}, labels={"a": "b"}),
        f"{INCLUDE}.kinds[0]: Forbidden: a ClusterRole is never a target: it grants rights",
    ),
    "Secrets as targets": (
        a_policy(include={"kinds": ["v1/Secret"]}, labels={"a": "b"}),
        f"{INCLUDE}.kinds[0]: Forbidden: a Secret is never a target: it holds what must not be copied around",
    ),
    "ServiceAccounts as targets": (
        a_policy(include={"kinds": ["ServiceAccount"]}, labels={"a": "b"}),
        f"{INCLUDE}.kinds[0]: Forbidden: a ServiceAccount is never a target: it is an identity",
    ),
    "namespaces as targets": (
        a_policy(include={"kinds": ["Namespace"]}, labels={"a": "b"}),
        f"{INCLUDE}.kinds[0]: Forbidden: a Namespace is never a target: it belongs to the cluster, and its labels decide what is allowed inside",
    ),
    "webhooks as targets": (
        a_policy(include={"kinds": ["ValidatingWebhookConfiguration"]}, labels={"a": "b"}),
        f"{INCLUDE}.kinds[0]: Forbidden: a ValidatingWebhookConfiguration is never a target: it decides what the API server admits",
    ),
    "configs as targets": (
        a_policy(include={"kinds": ["CASConfig"]}, labels={"a": "b"}),
        f"{INCLUDE}.kinds[0]: Forbidden: a CASConfig is never a target: a config must not change configs",
    ),
    "a kind with half a group": (
        a_policy(include={"kinds": ["apps/Deployment"]}, labels={"a": "b"}),
        f'{INCLUDE}.kinds[0]: Invalid value: "apps/Deployment": is neither Kind nor group/version/Kind',
    ),
    "a name that is none": (
        a_policy(include={"names": ["Web!"]}, labels={"a": "b"}),
        f'{INCLUDE}.names[0]: Invalid value: "Web!": is not a valid name; * matches any text',
    ),
    "a label that is none": (
        a_policy(labels={"a": "no value!"}),
        f'{VALUES}.labels[a]: Invalid value: "no value!": is not the value of a label',
    ),
    "a forged ledger": (
        a_policy(annotations={"casconfig.openebs.io/other": "{}"}),
        f"{VALUES}.annotations[casconfig.openebs.io/other]: Forbidden: this annotation is reserved: it records changes to an object",
    ),
    "a forged mark of another controller": (
        a_policy(annotations={"quintet.dev/applied": "x"}),
        f"{VALUES}.annotations[quintet.dev/applied]: Forbidden: this annotation is reserved: it records changes to an object",
    ),
    "a variable that is none": (
        a_policy(envs={"A=B": "x"}),
        f'{VALUES}.envs: Invalid value: "A=B": is not the name of an environment variable',
    ),
    "a container without an image": (
        a_policy(containers=[{"name": "a"}]),
        f"{VALUES}.containers[0].image: Required value: a container needs an image",
    ),
    "two containers of one name": (
        a_policy(containers=[SIDECAR, SIDECAR]),
        f'{VALUES}.containers[1].name: Duplicate value: "proxy": must be unique',
    ),
    "a container without a name": (
        a_policy(mainContainer={"image": "x"}),
        f"{VALUES}.mainContainer.name: Invalid value: null: must be lower-case letters, digits and '-'",
    ),
    "an unknown operator": (
        a_policy(tolerations=[{"key": "a", "operator": "Exist"}]),
        f"{VALUES}.tolerations[0].operator: Unsupported value: \"Exist\": must be one of 'Equal', 'Exists', 'Lt', 'Gt' (did you mean 'Exists'?)",
    ),
    "a Secret in a label": (
        a_policy(**{"from": [{**SOURCE, "kind": "Secret", "toType": "label"}]}),
        f'{VALUES}.from[0].toType: Invalid value: "label": a value of a Secret must not become a label or an annotation, where everybody can read it',
    ),
    "a Secret in an annotation": (
        a_policy(**{"from": {**SOURCE, "kind": "Secret", "toType": "annotation"}}),
        f'{VALUES}.from[0].toType: Invalid value: "annotation": a value of a Secret must not become a label or an annotation, where everybody can read it',
    ),
    "a path to several values": (
        a_policy(**{"from": [{**SOURCE, "path": ".data[*]"}]}),
        f"{VALUES}.from[0].path: Invalid value: \".data[*]\": cannot be read from '[*]' on; known are .field, ['key'], [0] and [?(@.field=='value')]",
    ),
    "a privileged sidecar": (
        with_context(privileged=True),
        f"{CONTEXT}.privileged: Forbidden: a privileged container owns the node",
    ),
    "a sidecar that becomes root": (
        with_context(allowPrivilegeEscalation=True),
        f"{CONTEXT}.allowPrivilegeEscalation: Forbidden: an injected container must not become root by itself",
    ),
    "a capability of the node": (
        with_context(capabilities={"add": ["CHOWN", "SYS_ADMIN"]}),
        f"{CONTEXT}.capabilities.add: Forbidden: the capability SYS_ADMIN reaches beyond the container",
    ),
    "an unmasked /proc": (
        with_context(procMount="Unmasked"),
        f"{CONTEXT}.procMount: Forbidden: only the default masks what /proc shows of the node",
    ),
    "an unconfined sidecar": (
        with_context(seccompProfile={"type": "Unconfined"}),
        f"{CONTEXT}.seccompProfile.type: Forbidden: an unconfined container may call whatever the kernel has",
    ),
    "a host process": (
        with_context(windowsOptions={"hostProcess": True}),
        f"{CONTEXT}.windowsOptions.hostProcess: Forbidden: a host process owns the node",
    ),
    "another user of SELinux": (
        with_context(seLinuxOptions={"user": "system_u"}),
        f"{CONTEXT}.seLinuxOptions.user: Forbidden: must be left to the node",
    ),
    "a probe of another host": (
        a_policy(sidecars=[{**SIDECAR, "livenessProbe": {"tcpSocket": {"host": "10.0.0.1", "port": 80}}}]),
        f"{VALUES}.sidecars[0].livenessProbe.tcpSocket.host: Forbidden: the kubelet connects from the network "
        "of the node, and may only connect to the pod",
    ),
    "a hook to another host": (
        a_policy(
            sidecars=[{**SIDECAR, "lifecycle": {"preStop": {"httpGet": {"host": "10.0.0.1", "port": 80}}}}]
        ),
        f"{VALUES}.sidecars[0].lifecycle.preStop.httpGet.host: Forbidden: the kubelet connects from the "
        "network of the node, and may only connect to the pod",
    ),
    "a port of the node": (
        a_policy(sidecars=[{**SIDECAR, "ports": [{"containerPort": 80, "hostPort": 80}]}]),
        f"{VALUES}.sidecars[0].ports[0].hostPort: Forbidden: a port of the node belongs to the cluster",
    ),
}


@pytest.mark.parametrize(("policy", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_or_hostile_spec_is_refused_with_field_and_reason(policy, want):
    assert errors(a_config(policy)) == [want]


@pytest.mark.parametrize("field", ["serviceAccountName", "hostNetwork", "hostPID", "volumes", "nodeName"])
def test_values_cannot_change_identity_volumes_or_node_of_a_pod(field):
    assert errors(a_config(a_policy(labels={"a": "b"}, **{field: "x"}))) == [], "unknown fields are dropped"
    after = given(a_deployment(), LOW, sidecars=[{**SIDECAR, field: "x"}]).object
    before = pod_of(a_deployment())
    assert {key: value for key, value in pod_of(after).items() if key != "containers"} == {
        key: value for key, value in before.items() if key != "containers"
    }


def test_all_errors_are_reported_at_once():
    config = a_config(
        a_policy("p", include={}), a_policy("p", labels={"a": "b"}), scope={"namespaces": ["A"]}
    )
    assert [error.partition(":")[0] for error in errors(config)] == [
        "spec.scope.namespaces[0]",
        "spec.policies[0].include",
        "spec.policies[0].values",
        "spec.policies[1].name",
    ]


def test_spec_with_wrong_types_gives_one_error():
    assert errors(a_config(mode="Never")) == [
        "spec: Invalid value: null: Invalid enum value 'Never' - at `$.mode`"
    ]


def test_config_with_every_field_is_valid():
    every = a_policy(
        include={
            "labels": {"app": "web"},
            "annotations": {"note": "any thing"},
            "namespaces": ["shop"],
            "kinds": ["Deployment", "apps/v1/StatefulSet", "v1/Pod"],
            "names": ["web-*"],
            "serviceAccounts": ["runner"],
        },
        override=True,
        labels={"team": "a"},
        annotations={"Example.com/Note": "b"},
        envs={"LEVEL": "debug", "dotted.name": "x"},
        containers=[SIDECAR],
        sidecars=[{"name": "web", "args": ["x"]}],
        mainContainer={**SIDECAR, "securityContext": {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}},
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        **{"from": [SOURCE, {**SOURCE, "kind": "Secret", "namespace": "shop"}]},
    )
    scope = {"level": "cluster", "namespaces": ["shop"]}
    assert errors(a_config(every, scope=scope, mode="Preview", maxTargets=5)) == []


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        (
            a_policy(include={"names": ["a"]}, labels={"a": "b"}),
            "spec.policies[0].include.kinds: not set, so every kind with a pod template matches",
        ),
        (
            a_policy(include={"kinds": ["Pod"]}, envs={"A": "b"}),
            "spec.policies[0].include.kinds: only labels and annotations of a running pod can change, not envs",
        ),
        (
            a_policy(sidecars=[{"name": "a"}]),
            "spec.policies[0].values.sidecars[0]: without an image it can only be merged into a container",
        ),
        (
            a_policy(envs={"X": "1"}, **{"from": [SOURCE]}),
            "spec.policies[0].values.envs[X]: values.from sets the same variable and takes precedence",
        ),
    ],
)
def test_suspicious_spec_gives_a_warning(policy, want):
    judgement = validate(a_config(policy))
    assert judgement.errors == ()
    assert judgement.warnings == (want,)


def test_aliases_are_rewritten_with_a_warning():
    config = a_config(a_policy(maincontainer=SIDECAR, **{"from": SOURCE}))
    made = default(config)
    assert made["spec"]["policies"][0]["values"] == {"mainContainer": SIDECAR, "from": [SOURCE]}
    assert made["metadata"]["finalizers"] == [FINALIZER]
    assert list(alias_warnings(config)) == [
        f"{VALUES}.maincontainer: was renamed to mainContainer",
        f"{VALUES}.from: was converted to a list of one item",
    ]
    assert list(alias_warnings(made)) == []
    assert default(made) == made


@pytest.mark.parametrize("spec", [None, {}, {"policies": None}, {"policies": [{}]}])
def test_defaulting_leaves_invalid_specs_to_validation(spec):
    assert default({"metadata": {}, "spec": spec})["spec"] == spec


KNOWN = (
    Resource("apps", "v1", "Deployment", "deployments"),
    Resource("", "v1", "Event", "events"),
    Resource("events.k8s.io", "v1", "Event", "events"),
    Resource("batch", "v1", "Job", "jobs"),
    Resource("batch", "v1beta1", "Job", "jobs"),
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Deployment", KNOWN[0]),
        ("apps/v1/Deployment", KNOWN[0]),
        ("Job", KNOWN[3]),
        ("batch/v1beta1/Job", KNOWN[4]),
        ("v1/Event", KNOWN[1]),
    ],
)
def test_kind_resolves_to_one_resource(text, want):
    assert resolve_kind(text, KNOWN).resource == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Event", "'Event' may mean events.k8s.io/v1/Event, v1/Event: write the one that is meant"),
        ("Foo", "the API server has no kind 'Foo'"),
        ("apps/v2/Deployment", "the API server has no kind 'apps/v2/Deployment'"),
        ("a/b", "'a/b' is neither Kind nor group/version/Kind"),
    ],
)
def test_unknown_or_ambiguous_kind_is_reported_with_candidates(text, want):
    found = resolve_kind(text, KNOWN)
    assert found.resource is None
    assert found.problem == want
