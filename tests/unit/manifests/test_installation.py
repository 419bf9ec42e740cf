"""What an installation consists of: identities, rights, workloads, and what the operator itself may do."""

import msgspec
import pytest

from quintet.apis.suite import Pods, QuintetSpec
from quintet.components import COMPONENTS
from quintet.controllers.suite.decide.installation import BY_KIND, MANAGED_BY, OPERATOR, Scope, key_of
from quintet.manifests.installation import KIAGNOSE, QUINTET, installer, objects
from quintet.manifests.manager import manager
from quintet.manifests.operator import operator, operator_rules, quintet_object
from quintet.manifests.union import grants

ALL = tuple(COMPONENTS.values())
NAMES = [component.name for component in ALL]


def installed(flavour=QUINTET, images=None, **spec):
    return installer(ALL, flavour)(msgspec.convert(spec, QuintetSpec), images or {})


def of_kind(kind, made):
    return [each for each in made if each["kind"] == kind]


def part(made, name):
    return next(each for each in made.parts if name in each.controllers)


def container(part):
    return part.deployment["spec"]["template"]["spec"]["containers"][0]


def test_separate_topology_gives_each_controller_its_own_workload_and_permissions():
    made = installed()
    assert [each.controllers for each in made.parts] == [(name,) for name in NAMES]
    for each in made.parts:
        kinds = {body["kind"] for body in each.objects}
        assert kinds >= {
            "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service",
            "PodDisruptionBudget", "NetworkPolicy",
        }, each.name  # fmt: skip
        assert {key_of(body).name for body in of_kind("ServiceAccount", each.objects)} == {each.name}
        spec = each.deployment["spec"]["template"]["spec"]
        assert spec["serviceAccountName"] == each.name
        assert f"--controllers={each.controllers[0]}" in container(each)["args"]
        assert f"--instance={each.name}" in container(each)["args"]


def test_rollout_surges_before_removing_pods():
    deployments = [each.deployment for each in installed().parts] + of_kind("Deployment", operator(ALL))
    for each in deployments:
        rolling = each["spec"]["strategy"]["rollingUpdate"]
        assert rolling == {"maxSurge": 1, "maxUnavailable": 0}, each["metadata"]["name"]


def test_controller_gets_no_permission_of_another():
    made = installed()
    rules = [
        rule for role in of_kind("ClusterRole", part(made, "jsonserver").objects) for rule in role["rules"]
    ]
    declared = {
        (right.group, resource, verb)
        for right in COMPONENTS["jsonserver"].permissions
        for resource in right.resources
        for verb in right.verbs
    }
    webhooks = {each for each in grants(rules) if each[0] == "admissionregistration.k8s.io"}
    reviews = {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    assert {each[:3] for each in set(grants(rules)) - webhooks} == declared | reviews
    assert {each[3] for each in webhooks} == {"quintet-jsonserver"}
    assert {each[2] for each in webhooks} == {"get", "patch"}, "what was removed must stay so"


@pytest.mark.parametrize(
    ("metrics", "port", "reviews"), [("Secure", "https-metrics", True), ("Plain", "metrics", False)]
)
def test_metrics_have_a_port_of_their_own_and_plain_ones_need_no_permission(metrics, port, reviews):
    made = part(installed(metrics=metrics), "jsonserver")
    container = made.deployment["spec"]["template"]["spec"]["containers"][0]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert (ports["health"], ports[port]) == (8081, 9090)
    assert f"--metrics={metrics.lower()}" in container["args"]
    assert {probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")} == {
        "health"
    }
    (service,) = (
        each for each in of_kind("Service", made.objects) if each["metadata"]["name"].endswith("-metrics")
    )
    assert service["spec"]["ports"] == [{"name": port, "port": 9090, "targetPort": port, "protocol": "TCP"}]
    (policy,) = of_kind("NetworkPolicy", made.objects)
    assert 9090 in {each["port"] for each in policy["spec"]["ingress"][0]["ports"]}
    granted = {each[1] for role in of_kind("ClusterRole", made.objects) for each in grants(role["rules"])}
    assert ({"tokenreviews", "subjectaccessreviews"} <= granted) is reviews


def test_combined_topology_is_one_workload_with_all_permissions():
    made = installed(topology="Combined")
    (whole,) = made.parts
    assert (whole.name, whole.controllers) == ("quintet", tuple(NAMES))
    separate = [body for each in installed().parts for body in of_kind("ClusterRole", each.objects)]
    others = {
        each[:3] for body in separate for each in grants(body["rules"]) if "webhookconfig" not in each[1]
    }
    ours = {each[:3] for body in of_kind("ClusterRole", whole.objects) for each in grants(body["rules"])}
    assert others <= ours


def test_combined_topology_equals_config_default():
    (whole,) = installed(topology="Combined").parts
    (today,) = of_kind("Deployment", manager())
    pods = [each["spec"]["template"]["spec"] for each in (whole.deployment, today)]
    for pod in pods:
        del pod["containers"][0]["args"], pod["containers"][0]["env"]
    assert pods[0] == pods[1]


def test_every_object_has_managed_by_label_of_operator():
    for made in (installed(), installed(topology="Combined"), installed(KIAGNOSE)):
        for body in objects(made):
            assert body["metadata"]["labels"][MANAGED_BY] == OPERATOR, body
            assert body["kind"] in BY_KIND


def test_selectors_match_only_own_pods():
    made = installed()
    labels = {
        each.name: each.deployment["spec"]["template"]["metadata"]["labels"]
        for each in (*made.parts, *installed(topology="Combined").parts)
    }
    (own,) = of_kind("Deployment", operator(ALL))
    labels["operator"] = own["spec"]["template"]["metadata"]["labels"]
    for each in made.parts:
        selector = each.deployment["spec"]["selector"]["matchLabels"]
        found = [name for name, other in labels.items() if selector.items() <= other.items()]
        assert found == [each.name]


def test_only_selected_controllers_are_installed():
    made = installed(controllers=["checkup"])
    assert [each.name for each in made.parts] == ["quintet-checkup"]
    assert {key_of(body).name for body in made.definitions} == {
        "quintets.quintet.dev",
        "checkups.kiagnose.io",
    }
    denying = [
        body["spec"]["policyName"]
        for body in of_kind("ValidatingAdmissionPolicyBinding", made.policies)
        if body["spec"]["validationActions"] == ["Deny"]
    ]
    assert denying
    assert all(name.startswith("checkup-") for name in denying)


def test_empty_list_of_controllers_installs_none():
    made = installed(controllers=[])
    assert made.parts == ()
    assert made.unknown == ()


def warned_kinds(made):
    """Return the resources that each policy with the action Warn applies to, and where."""
    warning = {
        body["spec"]["policyName"]
        for body in of_kind("ValidatingAdmissionPolicyBinding", made.policies)
        if body["spec"]["validationActions"] == ["Warn"]
    }
    return {
        resource: body["spec"]["matchConstraints"].get("namespaceSelector")
        for body in of_kind("ValidatingAdmissionPolicy", made.policies)
        if key_of(body).name in warning
        for rule in body["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }


def test_kinds_without_controller_have_a_warning_policy():
    found = warned_kinds(installed(controllers=["checkup", "jsonserver"]))
    assert found == dict.fromkeys(
        ["eventingbackends", "subscriptions", "statefulclusters", "casconfigs"], None
    )
    assert warned_kinds(installed()) == {}


SCOPED = Scope(everywhere=False, namespaces=("shop", "team-a", "gone"), missing=("gone",))


def test_controllers_of_some_namespaces_get_roles_there_only():
    for topology in ("Separate", "Combined"):
        made = installer(ALL)(msgspec.convert({"topology": topology}, QuintetSpec), {}, SCOPED)
        for each in made.parts:
            assert "--namespace=shop,team-a,gone" in container(each)["args"]
            roles = {key_of(body) for body in of_kind("Role", each.objects)}
            assert {key.namespace for key in roles} == {"quintet-system", "shop", "team-a"}
            bound = {key_of(body).namespace for body in of_kind("RoleBinding", each.objects)}
            assert bound == {"quintet-system", "shop", "team-a"}
            (cluster,) = of_kind("ClusterRole", each.objects)
            namespaced = {"pods", "configmaps", "deployments", "services", "jobs", "roles", "serviceaccounts"}
            assert namespaced.isdisjoint(resource for _, resource, _, _ in grants(cluster["rules"]))


def test_roles_of_some_namespaces_grant_what_the_cluster_role_of_all_grants():
    everywhere, scoped = installed().parts, installer(ALL)(QuintetSpec(), {}, SCOPED).parts
    for whole, part_ in zip(everywhere, scoped, strict=True):
        (want,) = of_kind("ClusterRole", whole.objects)
        roles = of_kind("ClusterRole", part_.objects) + [
            body for body in of_kind("Role", part_.objects) if key_of(body).namespace == "shop"
        ]
        found = {each for body in roles for each in grants(body["rules"])}
        assert found - set(grants(want["rules"])) <= {("", "namespaces", "get", "")}
        assert set(grants(want["rules"])) <= found


def test_objects_outside_of_watched_namespaces_have_a_warning_policy():
    found = warned_kinds(installer(ALL)(QuintetSpec(), {}, SCOPED))
    (selector,) = {str(each): each for each in found.values()}.values()
    assert selector == {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["shop", "team-a", "gone"],
            }
        ]
    }
    assert len(found) == 6


def test_selector_without_match_runs_no_controller():
    nothing = Scope(everywhere=False)
    made = installer(ALL)(QuintetSpec(), {}, nothing)
    assert made.parts == ()
    assert len(warned_kinds(made)) == 6


def test_unknown_controller_is_reported():
    assert installed(KIAGNOSE, controllers=["jsonserver", "checkup"]).unknown == ("jsonserver",)


def test_controller_settings_override_global_settings():
    made = installed(
        replicas=3,
        logLevel="Warning",
        image="q:9",
        namespaces=["shop"],
        settings={"checkup": {"replicas": 1, "logLevel": "Debug", "workers": 2,
                              "resources": {"requests": {"cpu": "1"}}}},
    )  # fmt: skip
    checkup, other = part(made, "checkup"), part(made, "jsonserver")
    assert (checkup.replicas, other.replicas) == (1, 3)
    assert {"--log-level=debug", "--workers=2", "--namespace=shop"} <= set(container(checkup)["args"])
    assert {"--log-level=warning", "--namespace=shop"} <= set(container(other)["args"])
    assert container(checkup)["resources"] == {"requests": {"cpu": "1"}}
    assert container(other)["resources"]["limits"] == {"memory": "512Mi"}
    assert checkup.image == other.image == "q:9"


CONSTRAINT = {
    "maxSkew": 2,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
}
NODES = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]}
PODS = {
    "labels": {"team": "platform"},
    "annotations": {"sidecar.istio.io/inject": "false"},
    "imagePullSecrets": [{"name": "registry"}],
    "imagePullPolicy": "Always",
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NODES}},
    "topologySpreadConstraints": [CONSTRAINT],
    "priorityClassName": "system-cluster-critical",
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "args": ["--workers=3"],
}


@pytest.mark.parametrize("topology", ["Separate", "Combined"])
def test_pod_settings_are_those_of_every_controller(topology):
    assert {each.encode_name for each in msgspec.structs.fields(Pods)} == PODS.keys(), "test every field"
    before, after = installed(topology=topology), installed(topology=topology, pods=PODS)
    for old, new in zip(before.parts, after.parts, strict=True):
        was, template = old.deployment["spec"]["template"], new.deployment["spec"]["template"]
        assert new.deployment["metadata"] == old.deployment["metadata"]
        assert new.deployment["spec"]["selector"] == old.deployment["spec"]["selector"]
        assert template["metadata"] == {
            "labels": {**was["metadata"]["labels"], "team": "platform"},
            "annotations": PODS["annotations"],
        }
        (had,), (has,) = was["spec"].pop("containers"), template["spec"].pop("containers")
        assert has == {
            **had,
            "imagePullPolicy": "Always",
            "env": [*had["env"], *PODS["env"]],
            "args": [*had["args"], "--workers=3"],
        }
        own = {"labelSelector": new.deployment["spec"]["selector"]}
        assert template["spec"] == {
            **was["spec"],
            **{name: PODS[name] for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity",
                                             "priorityClassName")},
            "topologySpreadConstraints": [{**CONSTRAINT, **own}],
        }  # fmt: skip


def test_spread_constraint_keeps_its_own_label_selector():
    selector = {"matchLabels": {"app.kubernetes.io/part-of": "quintet"}}
    made = installed(pods={"topologySpreadConstraints": [{**CONSTRAINT, "labelSelector": selector}]})
    for each in made.parts:
        (found,) = each.deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert found["labelSelector"] == selector


def test_labels_and_annotations_of_service_accounts_and_services_are_added():
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/quintet"}
    made = installed(
        serviceAccounts={"labels": {"team": "a"}, "annotations": role},
        services={"labels": {"team": "b"}, "annotations": {"prometheus.io/scrape": "true"}},
    )
    added = {"ServiceAccount": ("a", role), "Service": ("b", {"prometheus.io/scrape": "true"})}
    for body in objects(made):
        metadata = body["metadata"]
        team, annotations = added.get(body["kind"], (None, None))
        assert metadata["labels"].get("team") == team, body
        assert metadata.get("annotations") == annotations or team is None, body
        assert metadata["labels"][MANAGED_BY] == OPERATOR


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"maxUnavailable": "50%"}, {"maxUnavailable": "50%"}),
        ({"maxUnavailable": 0}, {"maxUnavailable": 0}),
        ({"minAvailable": 1}, {"minAvailable": 1}),
        ({"minAvailable": 0}, {"minAvailable": 0}),
    ],
    ids=str,
)
def test_disruption_budget_has_the_desired_limit(given, want):
    for body in of_kind("PodDisruptionBudget", objects(installed(podDisruptionBudget=given))):
        assert {name: value for name, value in body["spec"].items() if name != "selector"} == want


def test_eventing_settings_become_command_options():
    made = installed(
        settings={
            "eventing": {"configErrors": "Reject", "refusedNetworks": ["10.0.0.0/8"], "natsImage": "nats:1"}
        }
    )
    found = container(part(made, "eventing"))
    assert {"--eventing-config-errors=Reject", "--eventing-refused-networks=10.0.0.0/8"} <= set(found["args"])
    assert {"name": "QUINTET_NATS_IMAGE", "value": "nats:1"} in found["env"]
    assert {"name": "QUINTET_EVENTING_IMAGE", "value": QUINTET.image} in found["env"]


def test_every_option_is_known_to_run_command():
    from quintet.cli.verbs.processes.run import run

    known = {option for parameter in run.params for option in parameter.opts}
    spec = {
        "namespaces": ["x"],
        "settings": {
            "eventing": {"configErrors": "Warn", "refusedNetworks": ["10.0.0.0/8"],
                         "allowedNetworks": ["10.1.0.0/16"], "workers": 1}
        },
    }  # fmt: skip
    for each in installed(**spec).parts:
        used = {argument.partition("=")[0] for argument in container(each)["args"][1:]}
        assert used <= known


def test_fallback_image_overrides_desired_image():
    made = installed(image="q:2", images={"checkup": "q:1"})
    assert part(made, "checkup").image == "q:1"
    assert part(made, "jsonserver").image == "q:2"


def test_network_policies_can_be_disabled():
    made = installed(networkPolicies="Disabled")
    assert of_kind("NetworkPolicy", objects(made)) == []


@pytest.mark.parametrize("flavour", [QUINTET, KIAGNOSE], ids=["quintet", "kiagnose"])
class TestOperator:
    """The operator that is installed by an administrator."""

    def test_operator_holds_every_permission_that_it_grants(self, flavour):
        cluster, own = (set(grants(rules)) for rules in operator_rules(ALL, flavour))
        for topology in ("Separate", "Combined"):
            made = objects(installed(flavour, topology=topology))
            made += objects(installed(flavour, topology=topology, namespaces=["shop"]))
            for kind, held in (("ClusterRole", cluster), ("Role", cluster | own)):
                for role in of_kind(kind, made):
                    here = cluster if key_of(role).namespace == "shop" else held
                    for group, resource, verb, name in grants(role["rules"]):
                        assert {(group, resource, verb, name), (group, resource, verb, "")} & here, role

    def test_operator_cannot_escalate_permissions_or_delete_crds(self, flavour):
        for rules in operator_rules(ALL, flavour):
            found = list(grants(rules))
            assert {verb for _, _, verb, _ in found}.isdisjoint({"escalate", "bind"})
            # Only to be able to grant it: acting as the account that users set up for CASConfigs.
            acting = [each for each in found if each[2] == "impersonate"]
            assert all(each[1:] == ("serviceaccounts", "impersonate", "casconfig") for each in acting)
            assert not [
                each for each in found if each[1] == "customresourcedefinitions" and each[2] == "delete"
            ]
            assert "nodes/proxy" not in {resource for _, resource, _, _ in found}

    def test_operator_has_no_access_to_secrets_of_other_namespaces(self, flavour):
        cluster, own = operator_rules(ALL, flavour)
        assert "secrets" not in {resource for _, resource, _, _ in grants(cluster)}
        assert {verb for _, resource, verb, _ in grants(own) if resource == "secrets"} == {
            "get",
            "patch",
            "create",
        }

    def test_cluster_wide_permissions_are_limited_to_own_names(self, flavour):
        cluster, _ = operator_rules(ALL, flavour)
        for group, resource, verb, name in grants(cluster):
            if resource in ("clusterroles", "clusterrolebindings") or group == "admissionregistration.k8s.io":
                assert name or verb in ("list", "watch", "create"), (group, resource, verb)


def test_kiagnose_flavour_has_names_of_design():
    made = operator(ALL, KIAGNOSE)
    names = {(each["kind"], *key_of(each)) for each in made}
    assert names >= {
        ("Namespace", "", "kiagnose"),
        ("ServiceAccount", "kiagnose", "kiagnose-operator"),
        ("ClusterRole", "", "kiagnose-operator"),
        ("ClusterRoleBinding", "", "kiagnose-operator"),
        ("Deployment", "kiagnose", "kiagnose-operator"),
    }
    assert [each.name for each in installed(KIAGNOSE).parts] == ["kiagnose-checkup-controller"]
    assert quintet_object(KIAGNOSE)["spec"] == {"controllers": ["checkup"]}
    assert not [each for each in made if "jsonserver" in each["metadata"]["name"]]


def test_aggregated_roles_cannot_write_quintet():
    roles = {each["metadata"]["name"]: each for each in of_kind("ClusterRole", operator(ALL))}
    for name, role in roles.items():
        aggregated = [label for label in role["metadata"]["labels"] if "aggregate-to" in label]
        if aggregated and any(rule["apiGroups"] == ["quintet.dev"] for rule in role["rules"]):
            verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
            assert verbs <= {"get", "list", "watch"}, name
    assert "quintet-editor" in roles


def test_every_kind_has_viewer_editor_and_admin_role():
    roles = {each["metadata"]["name"] for each in of_kind("ClusterRole", operator(ALL))}
    for component in ALL:
        for kind in component.kinds:
            name = kind.resource.kind.lower()
            assert {f"{name}-viewer", f"{name}-editor", f"{name}-admin"} <= roles
