"""The Checkups that test_checkup_on_a_node.py starts together: one for every way in which a run can end."""

from typing import Any

from e2e.checkups import a_checkup, hanging
from quintet.local.images import catalog

NOWHERE = "quintet.local/nowhere:1"
REASON = "check: no response from the gateway; check that it runs"
# Good for a pod, but not in a namespace of the strictest kind; and good for no pod at all.
HOST_NETWORK = {"spec": {"hostNetwork": True}}
CONTRADICTION = {"spec": {"containers": [{"name": "checkup", "securityContext": {"privileged": True}}]}}
READ_ONLY = {
    "spec": {"containers": [{"name": "checkup", "securityContext": {"readOnlyRootFilesystem": True}}]}
}
NO_NODE = {"spec": {"nodeSelector": {"example.com/moon": "full"}}}
GREEDY = ["python3", "-c", "print(len('x' * 10**9))"]
NO_PODS = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none"},
    "spec": {"hard": {"pods": "0"}},
}


# Seconds in which a machine that starts all of these at once comes to say why a pod does not run.
TO_START = 60
# A container is asked for its log and its partial results before it is stopped: it must have come to say something.
TO_RUN = 40
# For those that somebody ends: they must still run when their test comes to them, however late that is.
TO_HANG = 3600


def instead(*command: str, **container: Any) -> dict[str, Any]:
    """Another program in the image of the echo."""
    return {"spec": {"containers": [{"name": "checkup", "command": list(command), **container}]}}


# By name: what is run, and what its namespace holds besides.
CASES = {
    "passed": (a_checkup("passed", template=READ_ONLY), []),
    "configmap": (a_checkup("configmap", catalog.ECHO_CONFIGMAP, template=READ_ONLY), []),
    "failed": (a_checkup("failed", params={"message": "Hi!", "failure": REASON}), []),
    "input": (a_checkup("input", catalog.ECHO_CONFIGMAP, params={}), []),
    "timed-out": (a_checkup("timed-out", params=hanging(), timeoutSeconds=TO_RUN), []),
    "cancelled": (a_checkup("cancelled", params=hanging(), timeoutSeconds=TO_HANG), []),
    "deleted": (a_checkup("deleted", params=hanging(), timeoutSeconds=TO_HANG), []),
    "bad-image": (a_checkup("bad-image", NOWHERE, timeoutSeconds=TO_START), []),
    "no-account": (a_checkup("no-account", serviceAccountName="nobody", timeoutSeconds=2), []),
    "quota": (a_checkup("quota", timeoutSeconds=TO_START), [NO_PODS]),
    "security": (a_checkup("security", template=HOST_NETWORK, timeoutSeconds=TO_START), []),
    "template": (a_checkup("template", template=CONTRADICTION), []),
    "no-node": (a_checkup("no-node", template=NO_NODE, timeoutSeconds=TO_START), []),
    "no-program": (a_checkup("no-program", template=instead("/no/such/program")), []),
    "silent": (a_checkup("silent", template=instead("true")), []),
    "crash": (a_checkup("crash", template=instead("sh", "-c", "echo about to crash; exit 3")), []),
    "greedy": (
        a_checkup(
            "greedy",
            catalog.ECHO_CONFIGMAP,
            template=instead(*GREEDY, resources={"limits": {"memory": "64Mi"}}),
        ),
        [],
    ),
    "pod-deleted": (a_checkup("pod-deleted", params=hanging(), timeoutSeconds=TO_HANG), []),
    "basics": (
        a_checkup("basics", catalog.CLUSTER_BASICS, params={"samples": "3"}, template=READ_ONLY),
        [],
    ),
}
# Those that the tests of `make test` look at.
ESSENTIAL = ("passed", "failed")
