"""Which questions tell that rights count by now."""

from kit.cluster.access_reviews import account, questions, review


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
ROBOT = account("home", "robot")


def test_each_binding_is_asked_about_by_a_right_that_only_its_role_gives():
    wide = a_role("ClusterRole", "wide", PODS, VERSION)
    here = a_role("Role", "here", LEASE, namespace="home")
    bodies = [
        wide,
        here,
        a_binding("ClusterRoleBinding", wide),
        a_binding("RoleBinding", here, namespace="home"),
    ]
    assert list(questions(bodies)) == [
        review(ROBOT, "get", "pods/log"),
        review(ROBOT, "get", "leases", group="coordination.k8s.io", namespace="home", name="mine"),
    ]


def test_a_role_of_the_cluster_that_is_bound_in_a_namespace_is_asked_about_there():
    wide = a_role("ClusterRole", "wide", PODS)
    bodies = [wide, a_binding("RoleBinding", wide, namespace="shop")]
    assert list(questions(bodies)) == [review(ROBOT, "get", "pods/log", namespace="shop")]


def test_what_is_no_binding_and_roles_of_others_are_not_asked_about():
    elsewhere = a_role("ClusterRole", "not-among-them", PODS)
    bodies = [{"kind": "ConfigMap", "metadata": {"name": "a"}}, a_binding("ClusterRoleBinding", elsewhere)]
    assert list(questions(bodies)) == []
