"""Access reviews that show whether roles and bindings are applied."""

from kit.cluster.access_reviews import access_review, reviews_of_bindings, service_account_user


def a_role(kind, name, *rules, namespace=""):
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": list(rules)}


def a_binding(kind, role, name="some", namespace=""):
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "home"}
    role_ref = {"kind": role["kind"], "name": role["metadata"]["name"]}
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": role_ref,
        "subjects": [subject],
    }


PODS = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get", "list"]}
LEASE = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "resourceNames": ["mine"],
    "verbs": ["get"],
}
VERSION = {"nonResourceURLs": ["/version"], "verbs": ["get"]}
ROBOT = service_account_user("home", "robot")


def test_each_binding_is_reviewed_with_permission_of_its_role_only():
    wide = a_role("ClusterRole", "wide", PODS, VERSION)
    here = a_role("Role", "here", LEASE, namespace="home")
    bodies = [
        wide,
        here,
        a_binding("ClusterRoleBinding", wide),
        a_binding("RoleBinding", here, namespace="home"),
    ]
    assert list(reviews_of_bindings(bodies)) == [
        access_review(ROBOT, "get", "pods/log"),
        access_review(ROBOT, "get", "leases", group="coordination.k8s.io", namespace="home", name="mine"),
    ]


def test_cluster_role_bound_in_namespace_is_reviewed_there():
    wide = a_role("ClusterRole", "wide", PODS)
    bodies = [wide, a_binding("RoleBinding", wide, namespace="shop")]
    assert list(reviews_of_bindings(bodies)) == [access_review(ROBOT, "get", "pods/log", namespace="shop")]


def test_other_objects_and_unknown_roles_are_not_reviewed():
    elsewhere = a_role("ClusterRole", "not-among-them", PODS)
    bodies = [{"kind": "ConfigMap", "metadata": {"name": "a"}}, a_binding("ClusterRoleBinding", elsewhere)]
    assert list(reviews_of_bindings(bodies)) == []
